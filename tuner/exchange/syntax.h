// Readers of the syntaxes of configuration files: YAML and TOML as JSON, shell scripts as words.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tuner {

// Throw engine::InputError naming `source` and the line. Duplicate keys and dates are refused; size
// and nesting are bounded.
nlohmann::json parse_yaml(const std::string& text, const std::string& source);
nlohmann::json parse_toml(const std::string& text, const std::string& source);

struct ShellScript {
  std::vector<std::vector<std::string>> commands;  // words, without assignments and redirections
  std::map<std::string, std::string> documents;    // what `cat > NAME <<TAG` writes, by NAME
  std::vector<std::string> comments;               // without their #
};

// The commands of a script, in order, with the variables and arrays that it sets itself put in.
// What only a shell could know ($(…), other variables) stays as it is written. Nothing is run.
// Throws engine::InputError naming `source` where a quote or an array does not end.
ShellScript parse_shell(std::string_view text, const std::string& source);

}  // namespace tuner
