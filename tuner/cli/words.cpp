// Words of the command line: splitting, quoting, and which command they ask for.
#include "tuner/cli/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "engine/base/errors.h"

namespace tuner {

Words split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

std::string quoted_for_shell(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./,:=+@%^").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

// How many of the words from `first` on are the command's own.
size_t words_matched(const Command& command, const Words& words, size_t first) {
  const auto own = split(command.words, ' ');
  size_t count = 0;
  while (count < own.size() && first + count < words.size() && own[count] == words[first + count])
    ++count;
  return count;
}

// Words of common options that stand before the verb.
size_t leading_options(const Words& words) {
  size_t first = 0;
  while (first < words.size() && is_option(words[first])) {
    const std::string name = words[first].substr(0, words[first].find('='));
    if (name != "--color" && name != "--help" && name != "-h")
      throw engine::InputError(fmt::format(
          "option '{}' stands before the command; write it behind, see `autotune --help`", name));
    first += words[first] == "--color" ? 2 : 1;
  }
  return std::min(first, words.size());
}

}  // namespace

CommandMatch match_command(std::span<const Command> commands, const Words& words) {
  const size_t first = leading_options(words);
  CommandMatch match;
  size_t longest = 0;
  for (const Command& command : commands) {
    const size_t matched = words_matched(command, words, first);
    const bool complete = matched == split(command.words, ' ').size();
    longest = std::max(longest, matched);
    if (complete &&
        (match.command == nullptr || command.words.size() > match.command->words.size()))
      match.command = &command;
  }
  if (match.command != nullptr) longest = split(match.command->words, ' ').size();
  match.verb =
      fmt::format("{}", fmt::join(words.begin() + static_cast<ptrdiff_t>(first),
                                  words.begin() + static_cast<ptrdiff_t>(first + longest), " "));
  match.rest.assign(words.begin(), words.begin() + static_cast<ptrdiff_t>(first));
  match.rest.insert(match.rest.end(), words.begin() + static_cast<ptrdiff_t>(first + longest),
                    words.end());

  const size_t next = first + longest;
  const bool takes_words = match.command != nullptr && !match.command->positionals.empty();
  if (next >= words.size() || is_option(words[next]) || takes_words) return match;
  std::vector<std::string> siblings;
  const std::string prefix = longest == 0 ? "" : match.verb + " ";
  for (const Command& command : commands)
    if (command.words.starts_with(prefix)) siblings.push_back(command.words);
  if (siblings.empty()) return match;
  throw engine::InputError(
      engine::unknown_name("command", prefix + words[next], siblings, "see `autotune --help`"));
}

HelpLevel requested_help(const Words& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == "-h") return HelpLevel::brief;
    if (word == "--help") return HelpLevel::full;
  }
  return HelpLevel::none;
}

ColorChoice requested_color(const Words& words) {
  ColorChoice choice = ColorChoice::when_terminal;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    std::string_view value;
    if (words[i].starts_with("--color=")) value = std::string_view(words[i]).substr(8);
    if (words[i] == "--color" && i + 1 < words.size()) value = words[i + 1];
    if (value == "always") choice = ColorChoice::always;
    if (value == "never") choice = ColorChoice::never;
    if (value == "auto") choice = ColorChoice::when_terminal;
  }
  return choice;
}

}  // namespace tuner
