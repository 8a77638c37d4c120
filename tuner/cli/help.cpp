// Help texts.
#include "tuner/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/errors.h"

namespace tuner {
namespace {

struct ExitCodeText {
  engine::ExitCode code;
  std::string_view meaning;
};
constexpr ExitCodeText kExitCodes[] = {
    {engine::ExitCode::found, "an answer was found"},
    {engine::ExitCode::internal, "internal error, our fault"},
    {engine::ExitCode::usage, "usage or bad input"},
    {engine::ExitCode::nothing_fits,
     "no plan fits, or the given plan breaks a rule or does not fit"},
    {engine::ExitCode::target_missed, "a plan fits, but the target is not met"},
    {engine::ExitCode::partial, "only part of the trials worked"},
    {engine::ExitCode::storage, "database or storage trouble"},
    {engine::ExitCode::environment, "the environment lacks something (GPU, launcher)"},
    {engine::ExitCode::out_of_time, "the time budget ended before the first answer"},
    {engine::ExitCode::interrupted, "interrupted, state saved (143 when terminated)"},
};

struct Entry {
  std::string left;
  std::string right;
};

// Two columns; the right one wraps within its own column.
std::string listing(const std::vector<Entry>& entries) {
  constexpr size_t kWidestLeft = 44;
  size_t left = 0;
  for (const Entry& entry : entries)
    if (entry.left.size() <= kWidestLeft) left = std::max(left, entry.left.size());
  const size_t column = left + 4;
  std::string text;
  for (const Entry& entry : entries) {
    std::string right = wrapped_text(entry.right, column, static_cast<size_t>(output_width()));
    std::string head = "  " + entry.left;
    if (head.size() + 2 > column) {
      text += head + "\n" + right;
    } else {
      head.resize(column, ' ');
      text += right.empty() ? head + "\n" : head + right.substr(column);
    }
  }
  return text;
}

std::string option_names(const Option& option) {
  std::string names = option.letter == 0 ? "" : fmt::format("-{}, ", option.letter);
  names += option.kind == ValueKind::negatable ? "--[no-]" + option.name.substr(2) : option.name;
  return option.takes_value() ? names + " " + option.placeholder : names;
}

Entry option_entry(const Option& option, bool full) {
  std::string text = option.help;
  if (full && !option.choices.empty()) text += fmt::format(": {}", fmt::join(option.choices, ", "));
  if (option.required && !option.is_positional()) text += " (needed)";
  if (!option.default_text.empty()) text += fmt::format(" [{}]", option.default_text);
  return {option.is_positional() ? option.name : option_names(option), text};
}

std::string usage_line(const Command& command) {
  std::string line = "autotune " + command.words;
  for (const Option& option : command.options)
    if (option.required) line += " " + option_names(option);
  for (const Option& positional : command.positionals) {
    const std::string name = positional.name + (positional.takes_list() ? "…" : "");
    line += positional.required ? " " + name : " [" + name + "]";
  }
  return line + " [options]";
}

std::string heading(const Style& style, std::string_view text) {
  return "\n" + style.strong(text) + "\n";
}

std::vector<Entry> command_entries(std::span<const Command> commands, std::string_view prefix) {
  std::vector<Entry> entries;
  for (const Command& command : commands)
    if (command.words == prefix || prefix.empty() ||
        command.words.starts_with(std::string(prefix) + " "))
      entries.push_back({command.words, command.summary});
  return entries;
}

}  // namespace

std::vector<std::pair<int, std::string_view>> exit_code_meanings() {
  std::vector<std::pair<int, std::string_view>> all;
  for (const auto& [code, meaning] : kExitCodes) all.emplace_back(static_cast<int>(code), meaning);
  return all;
}

std::string program_help(std::span<const Command> commands, bool full, const Style& style) {
  std::string text =
      "autotune finds the fastest way to train or serve a large language model on given "
      "machines.\n";
  if (full) {
    std::vector<Entry> examples;
    for (const Command& command : commands)
      if (!command.examples.empty() && examples.size() < 5)
        examples.push_back(
            {"autotune " + command.examples.front().line, command.examples.front().what});
    text += heading(style, "Examples") + listing(examples);
  }
  auto entries = command_entries(commands, "");
  entries.push_back({"help COMMAND", "Explain a command (also: autotune COMMAND --help)"});
  text += heading(style, "Commands") + listing(entries);
  std::vector<Entry> options;
  for (const Option& option : common_options()) options.push_back(option_entry(option, full));
  options.push_back({"--version", "Show the version and how it was built"});
  text += heading(style, "Options") + listing(options);
  if (!full) return text + "\n`autotune --help` adds examples and the exit codes.\n";
  std::vector<Entry> codes;
  for (const auto& [code, meaning] : exit_code_meanings())
    codes.push_back({fmt::format("{:>3}", code), std::string(meaning)});
  return text + heading(style, "Exit codes") + listing(codes);
}

std::string command_help(const Command& command, bool full, const Style& style) {
  std::string text;
  if (full) {
    std::vector<Entry> examples;
    for (const Example& example : command.examples)
      examples.push_back({"autotune " + example.line, example.what});
    if (!examples.empty()) text += style.strong("Examples") + "\n" + listing(examples) + "\n";
  }
  text += style.strong("Usage: ") + usage_line(command) + "\n";
  text += wrapped_text(command.summary + ".", 2, static_cast<size_t>(output_width()));
  if (full && !command.description.empty())
    text += "\n" + wrapped_text(command.description, 2, static_cast<size_t>(output_width()));
  std::vector<Entry> positionals;
  for (const Option& option : command.positionals)
    positionals.push_back(option_entry(option, full));
  if (!positionals.empty()) text += heading(style, "Arguments") + listing(positionals);
  std::vector<Entry> options;
  for (const auto* table : {&command.options, &common_options()})
    for (const Option& option : *table) options.push_back(option_entry(option, full));
  text += heading(style, "Options") + listing(options);
  if (!full)
    text += fmt::format("\n`autotune {} --help` adds examples and details.\n", command.words);
  return text;
}

std::string group_help(std::span<const Command> commands, std::string_view words,
                       const Style& style) {
  return style.strong(fmt::format("Commands of `autotune {}`", words)) + "\n" +
         listing(command_entries(commands, words));
}

}  // namespace tuner
