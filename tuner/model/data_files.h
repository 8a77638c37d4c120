// Data files (profiles, stacks, grids, models): compiled into the program; the user's own come
// first.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

struct EmbeddedFile {
  std::string_view name;  // "profiles/gpus/a100-80gb.json"
  std::string_view text;
};
std::span<const EmbeddedFile> embedded_files();

struct DataFile {
  std::string origin;  // path of the user's file, or "built-in profiles/gpus/a100-80gb.json"
  std::string text;
};

// The folder of the user's own data files: $XDG_CONFIG_HOME/autotune, or ~/.config/autotune.
std::string user_data_folder();

// Names (without folder and .json) of the files in `folder` ("profiles/gpus"), sorted; the user's
// included.
std::vector<std::string> data_file_names(const std::string& folder);

// The file `folder`/`name`.json: the user's, else the built-in one. Throws InputError "unknown KIND
// 'NAME'; did you mean …" when there is none.
DataFile find_data_file(const std::string& folder, const std::string& name, std::string_view kind);

}  // namespace tuner
