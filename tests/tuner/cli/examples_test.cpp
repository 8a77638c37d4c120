// The examples of the help are command lines that the program understands.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/errors.h"
#include "tuner/cli/parser.h"

namespace tuner {
namespace {

// The words of an example, up to where it uses the shell.
Words words_of(const Example& example) {
  Words words = {""};
  bool quoted = false;
  for (const char c : example.line) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  words.erase(std::find_if(words.begin(), words.end(),
                           [](const std::string& word) { return word == "|" || word == ">"; }),
              words.end());
  return words;
}

// Whether the text is a name that the option knows, or a size or a file of the user's.
bool is_known(const Option& option, const std::string& text) {
  const std::vector<std::string> names = option.suggest();
  const bool size = text.find_first_of("0123456789") == 0;
  return size || text.find(".json") != std::string::npos || text.find('@') != std::string::npos ||
         std::find(names.begin(), names.end(), text) != names.end();
}

TEST(Examples, AreUnderstood) {
  for (const Command& command : all_commands()) {
    EXPECT_FALSE(command.examples.empty()) << command.words;
    for (const Example& example : command.examples) {
      const CommandMatch match = match_command(all_commands(), words_of(example));
      EXPECT_EQ(match.command, &command) << example.line;
      try {
        const Arguments arguments = parse_arguments(command, match.rest);
        for (const auto* table : {&command.options, &command.positionals})
          for (const Option& option : *table) {
            if (option.suggest == nullptr || option.kind != ValueKind::text) continue;
            const auto text = arguments.text(option.name);
            EXPECT_TRUE(!text || is_known(option, *text)) << example.line << ": " << *text;
          }
      } catch (const engine::InputError& error) {
        ADD_FAILURE() << example.line << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace tuner
