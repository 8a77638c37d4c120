// Data files: the built-in ones and the user's own.
#include "tuner/model/data_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"

namespace tuner {
namespace {

constexpr std::string_view kExtension = ".json";

// "profiles/gpus/a100-80gb.json" in "profiles/gpus" → "a100-80gb"; nothing for any other folder.
std::optional<std::string> name_in_folder(std::string_view file, std::string_view folder) {
  if (!file.starts_with(folder) || !file.ends_with(kExtension)) return std::nullopt;
  file.remove_prefix(folder.size());
  if (file.size() <= 1 + kExtension.size() || file.front() != '/') return std::nullopt;
  file.remove_prefix(1);
  file.remove_suffix(kExtension.size());
  if (file.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(file);
}

std::filesystem::path user_path(const std::string& folder) {
  const std::string root = user_data_folder();
  return root.empty() ? std::filesystem::path() : std::filesystem::path(root) / folder;
}

std::set<std::string> user_names(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator file(user_path(folder), error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error))
    if (file->path().extension() == kExtension) names.insert(file->path().stem().string());
  return names;
}

std::set<std::string> all_names(const std::string& folder) {
  std::set<std::string> names = user_names(folder);
  for (const EmbeddedFile& file : embedded_files())
    if (auto name = name_in_folder(file.name, folder)) names.insert(*name);
  return names;
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

std::string user_data_folder() {
  // The base directory specification: a relative path in the variable counts as not set.
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && config[0] == '/')
    return std::string(config) + "/autotune";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.config/autotune";
  return "";
}

std::vector<std::string> data_file_names(const std::string& folder) {
  const auto names = all_names(folder);
  return {names.begin(), names.end()};
}

DataFile find_data_file(const std::string& folder, const std::string& name, std::string_view kind) {
  // Only listed names are opened, so that "../x" never leaves the folder.
  const auto names = data_file_names(folder);
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    found = std::find_if(names.begin(), names.end(),
                         [&](const std::string& other) { return same_ignoring_case(other, name); });
  if (found == names.end())
    throw engine::InputError(engine::unknown_name(
        kind, name, names, fmt::format("known are {}", fmt::join(names, ", "))));

  if (user_names(folder).contains(*found)) {
    const std::string path = (user_path(folder) / (*found + std::string(kExtension))).string();
    return {path, engine::read_text_file(path)};
  }
  const std::string file_name = fmt::format("{}/{}{}", folder, *found, kExtension);
  const auto files = embedded_files();
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const EmbeddedFile& f) { return f.name == file_name; });
  engine::expect(file != files.end(), "a listed data file to be built in");
  return {"built-in " + file_name, std::string(file->text)};
}

}  // namespace tuner
