// Reading one configuration file.
#pragma once
#include <string>
#include <vector>

namespace tuner {

// One line of a file: `gpu = "h100-80gb"` below [train].
struct FileEntry {
  std::vector<std::string> tables;  // {"train"}
  std::string key;                  // "gpu"
  std::string value;                // texts and numbers as written, arrays joined by commas
  int line = 0;
};

// In the file's order; empty when the file does not exist. Throws InputError with the place of what
// is no TOML, and of values (dates, tables in arrays) that no option can take.
std::vector<FileEntry> read_settings_file(const std::string& path);

}  // namespace tuner
