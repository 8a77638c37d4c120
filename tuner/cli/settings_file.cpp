// Reading one configuration file: TOML, flattened to its entries.
#include "tuner/cli/settings_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace tuner {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// Empty when the node is no value of an option.
std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* on = node.as_boolean()) return on->get() ? "true" : "false";
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::string joined;
  if (const auto* array = node.as_array())
    for (const toml::node& element : *array) {
      const std::string part = element.is_array() ? "" : text_of(element);
      if (part.empty()) return {};
      joined += (joined.empty() ? "" : ",") + part;
    }
  return joined;
}

class Flattening {
 public:
  explicit Flattening(std::string path) : path_(std::move(path)) {}

  std::vector<FileEntry> flatten(const toml::table& root) {
    add(root, {});
    if (!problems_.empty()) throw engine::InputError(problems_);
    // A table is sorted by its keys; the file's order is what its writer thinks of.
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const FileEntry& a, const FileEntry& b) { return a.line < b.line; });
    return std::move(entries_);
  }

 private:
  void add(const toml::table& table, const std::vector<std::string>& tables) {
    for (const auto& [key, node] : table) {
      std::vector<std::string> below = tables;
      if (const toml::table* inner = node.as_table()) {
        below.emplace_back(key.str());
        add(*inner, below);
        continue;
      }
      std::string value = text_of(node);
      if (value.empty())
        problems_.push_back(
            fmt::format("{}:{}: '{}' must be a text, a number, true, false or a list of them",
                        path_, line_of(node), key.str()));
      entries_.push_back({tables, std::string(key.str()), std::move(value), line_of(node)});
    }
  }

  std::string path_;
  std::vector<FileEntry> entries_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<FileEntry> read_settings_file(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const engine::MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  try {
    return Flattening(path).flatten(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw engine::InputError(
        fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
}

}  // namespace tuner
