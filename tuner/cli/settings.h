// Settings: values of options that stand in the environment or in a configuration file.
//
// The strongest first: the command line, AUTOTUNE_* of the environment, ./autotune.toml,
// $XDG_CONFIG_HOME/autotune/config.toml; within a file, the table of a command before the top
// level.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

struct Setting {
  std::string command;  // "estimate train"; empty: every command that has the option
  std::string option;   // "--gpu"
  std::string value;    // as it would stand on the command line; of a flag "true" or "false"
  std::string origin;   // "AUTOTUNE_GPU", "./autotune.toml:3"
};

class Settings {
 public:
  // Reads all of them. Throws InputError with every problem: an unknown option or command, a value
  // that is none. A variable AUTOTUNE_… that names no option is left out and told in warnings().
  static Settings load(std::span<const Command> commands);

  const std::vector<Setting>& all() const { return settings_; }  // the strongest first
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Those in force for a command, one an option.
  std::vector<Setting> of(const Command& command) const;

 private:
  std::vector<Setting> settings_;
  std::vector<std::string> warnings_;
};

// The files that are looked at, the strongest first.
std::vector<std::string> settings_files();

// Whether the option may be set outside the command line: --help and --yes may not.
bool is_settable(const Option& option);

// "AUTOTUNE_GPUS_PER_NODE" of "--gpus-per-node".
std::string variable_of(const Option& option);

}  // namespace tuner
