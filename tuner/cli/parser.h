// Parsing: from the words of the command line to a command and its checked arguments.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

using Words = std::vector<std::string>;

// Which command is meant, and the words that remain for it.
struct CommandMatch {
  const Command* command = nullptr;  // null: no complete verb was given
  std::string verb;                  // the words that matched; "estimate" may lack its second word
  Words rest;
};

// The longest verb that the words begin with; common options may stand before it. Throws InputError
// with "did you mean" when the first word begins no verb.
CommandMatch match_command(std::span<const Command> commands, const Words& words);

// Checks `rest` against the command's table. Throws InputError with every problem.
Arguments parse_arguments(const Command& command, const Words& rest);

enum class HelpLevel { none, brief, full };
// Whether the words ask for help: -h or --help before a `--`.
HelpLevel requested_help(const Words& words);

// What --color asks for, for messages that come before or from the parsing itself.
ColorChoice requested_color(const Words& words);

}  // namespace tuner
