// Help texts, made from the option tables.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

// What `autotune -h` and `autotune --help` print: the commands; the full text adds exit codes.
std::string program_help(std::span<const Command> commands, bool full, const Style& style);
// What `autotune VERB -h` and `--help` print.
std::string command_help(const Command& command, bool full, const Style& style);
// What `autotune estimate --help` prints: the commands that begin with these words.
std::string group_help(std::span<const Command> commands, std::string_view words,
                       const Style& style);
// Every exit code and what it means.
std::vector<std::pair<int, std::string_view>> exit_code_meanings();
// What `autotune --version` prints: version, commit, compiler, libraries.
std::string version_text();
// "0.1.0"
std::string_view version_number();

}  // namespace tuner
