// Settings: values of options from the environment and from configuration files.
#include "tuner/cli/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/errors.h"
#include "tuner/cli/settings_file.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

constexpr std::string_view kPrefix = "AUTOTUNE_";
// Read where it is needed; no option.
constexpr std::string_view kWorkerVariable = "AUTOTUNE_WORKER";

// The options of all commands, those of one name once.
std::vector<Option> all_options(std::span<const Command> commands) {
  std::vector<Option> all;
  std::set<std::string> seen;
  const auto take = [&](const std::vector<Option>& options) {
    for (const Option& option : options)
      if (is_settable(option) && seen.insert(option.name).second) all.push_back(option);
  };
  take(common_options());
  for (const Command& command : commands) take(command.options);
  return all;
}

const Option* find_option(const std::vector<Option>& options, const std::string& name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& option) {
    return option.name == name && is_settable(option);
  });
  return found == options.end() ? nullptr : &*found;
}

const Option* option_of(const Command& command, const std::string& name) {
  const Option* own = find_option(command.options, name);
  return own != nullptr ? own : find_option(common_options(), name);
}

std::vector<std::string> setting_names(const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options)
    if (is_settable(option)) names.push_back(option.name.substr(2));
  return names;
}

class Reading {
 public:
  explicit Reading(std::span<const Command> commands)
      : commands_(commands), options_(all_options(commands)) {}

  void read_environment() {
    std::map<std::string, std::string> options;
    for (const Option& option : options_) options[variable_of(option)] = option.name;
    std::vector<std::string> known;
    for (const auto& [variable, name] : options) known.push_back(variable);
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::string variable(text.substr(0, text.find('=')));
      if (!variable.starts_with(kPrefix) || variable == kWorkerVariable) continue;
      const auto found = options.find(variable);
      if (found == options.end()) {
        warnings_.push_back(engine::unknown_name("setting", variable, known,
                                                 "see `autotune config show`; it is left out"));
      } else if (const std::string value(text.substr(variable.size() + 1)); !value.empty()) {
        settings_.push_back({"", found->second, value, variable});
      }
    }
    std::sort(warnings_.begin(), warnings_.end());
    std::stable_sort(settings_.begin(), settings_.end(),
                     [](const Setting& a, const Setting& b) { return a.option < b.option; });
  }

  void read_file(const std::string& path) {
    const size_t first = settings_.size();
    try {
      for (const FileEntry& entry : read_settings_file(path)) add(path, entry);
    } catch (const engine::InputError& error) {
      problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
    }
    // What is said of one command is stronger than what is said of all.
    std::stable_partition(settings_.begin() + static_cast<ptrdiff_t>(first), settings_.end(),
                          [](const Setting& setting) { return !setting.command.empty(); });
  }

  std::vector<std::string> problems_;
  std::vector<std::string> warnings_;
  std::vector<Setting> settings_;

 private:
  void add(const std::string& path, const FileEntry& entry) {
    const std::string place = fmt::format("{}:{}", path, entry.line);
    const std::string words = fmt::format("{}", fmt::join(entry.tables, " "));
    const std::string option = "--" + entry.key;
    const auto refuse = [&](std::string_view kind, const std::string& word,
                            const std::vector<std::string>& candidates) {
      problems_.push_back(fmt::format(
          "{}: {}", place,
          engine::unknown_name(kind, word, candidates, "see `autotune config show --origin`")));
    };
    if (words.empty()) {
      if (find_option(options_, option) == nullptr)
        return refuse("setting", entry.key, setting_names(options_));
    } else {
      const auto command = std::find_if(commands_.begin(), commands_.end(),
                                        [&](const Command& one) { return one.words == words; });
      if (command == commands_.end()) {
        std::vector<std::string> known;
        for (const Command& one : commands_) known.push_back(one.words);
        return refuse("command", words, known);
      }
      if (option_of(*command, option) == nullptr)
        return refuse(fmt::format("setting of {}", words), entry.key,
                      setting_names(command->options));
    }
    settings_.push_back({words, option, entry.value, place});
  }

  std::span<const Command> commands_;
  std::vector<Option> options_;
};

}  // namespace

bool is_settable(const Option& option) {
  return !option.is_positional() && option.name != "--help" && option.name != "--yes";
}

std::string variable_of(const Option& option) {
  std::string name(kPrefix);
  for (const char c : option.name.substr(2))
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::vector<std::string> settings_files() {
  std::vector<std::string> files = {"./autotune.toml"};
  if (const std::string folder = user_data_folder(); !folder.empty())
    files.push_back(folder + "/config.toml");
  return files;
}

Settings Settings::load(std::span<const Command> commands) {
  Reading reading(commands);
  reading.read_environment();
  for (const std::string& path : settings_files()) reading.read_file(path);
  if (!reading.problems_.empty()) throw engine::InputError(reading.problems_);
  Settings settings;
  settings.settings_ = std::move(reading.settings_);
  settings.warnings_ = std::move(reading.warnings_);
  return settings;
}

std::vector<Setting> Settings::of(const Command& command) const {
  std::vector<Setting> own;
  for (const Setting& setting : settings_) {
    const bool meant = setting.command.empty() ? option_of(command, setting.option) != nullptr
                                               : setting.command == command.words;
    const bool decided = std::any_of(own.begin(), own.end(), [&](const Setting& stronger) {
      return stronger.option == setting.option;
    });
    if (meant && !decided) own.push_back(setting);
  }
  return own;
}

}  // namespace tuner
