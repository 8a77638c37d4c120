// Words of the command line: splitting, quoting, and which command they ask for.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/cli/command.h"

namespace tuner {

using Words = std::vector<std::string>;

// "1,2," at commas → "1", "2", "".
Words split(std::string_view text, char separator);
// "--json" and "-y"; not "-" alone, which stands for a standard stream.
bool is_option(const std::string& word);
// The word as a shell has to be given it.
std::string quoted_for_shell(const std::string& word);

// Which command is meant, and the words that remain for it.
struct CommandMatch {
  const Command* command = nullptr;  // null: no complete verb was given
  std::string verb;                  // the words that matched; "estimate" may lack its second word
  Words rest;
};

// The longest verb that the words begin with; common options may stand before it. Throws InputError
// with "did you mean" when the words begin no verb.
CommandMatch match_command(std::span<const Command> commands, const Words& words);

enum class HelpLevel { none, brief, full };
// Whether the words ask for help: -h or --help before a `--`.
HelpLevel requested_help(const Words& words);

// What --color asks for, for messages that come before or from the parsing itself.
ColorChoice requested_color(const Words& words);

}  // namespace tuner
