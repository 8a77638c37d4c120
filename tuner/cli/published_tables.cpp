// Finding tables of published runs.
#include "tuner/cli/published_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"

namespace tuner {

CsvTable published_table(const Arguments& arguments, const std::string& built_in) {
  if (const auto file = arguments.text("FILE"))
    return CsvTable::parse(engine::read_text_file(*file), *file);
  for (const EmbeddedFile& file : embedded_files())
    if (file.name == built_in)
      return CsvTable::parse(file.text, fmt::format("built-in {}", built_in));
  throw std::logic_error("the program lacks its own table of published runs");
}

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  const auto lower = [](std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return word;
  };
  return lower(text).find(lower(part)) != std::string::npos;
}

}  // namespace tuner
