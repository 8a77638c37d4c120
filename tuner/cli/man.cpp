// autotune man: manual pages, made from the option tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/help.h"
#include "tuner/cli/settings.h"

namespace tuner {
namespace {

// Text as roff shows it unchanged.
std::string escaped(std::string_view text) {
  std::string roff;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) roff += "\\&";
    if (c == '\\')
      roff += "\\e";
    else if (c == '-')
      roff += "\\-";
    else
      roff += c;
    line_begins = c == '\n';
  }
  return roff;
}

std::string bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string sentence(std::string_view text) { return escaped(text) + ".\n"; }

// A paragraph with a hanging title.
std::string item(const std::string& title, const std::string& text) {
  return ".TP\n" + title + "\n" + text;
}

std::string page_name(const std::string& words) {
  std::string name = "autotune-" + words;
  std::replace(name.begin(), name.end(), ' ', '-');
  return words.empty() ? "autotune" : name;
}

std::string page_head(const std::string& words, std::string_view summary) {
  std::string title = page_name(words);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH {} 1 \"\" \"autotune {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     escaped(title), version_number(), escaped(page_name(words)), escaped(summary));
}

std::string option_item(const Option& option) {
  std::string title;
  if (option.letter != 0) title = bold(fmt::format("-{}", option.letter)) + ", ";
  title += option.is_positional() ? italic(option.name) : bold(option.name);
  if (option.kind == ValueKind::negatable) title += ", " + bold(option.negation());
  if (!option.is_positional() && option.takes_value()) title += " " + italic(option.placeholder);
  std::string text = option.help;
  if (!option.choices.empty()) text += fmt::format(": {}", fmt::join(option.choices, ", "));
  text = sentence(text);
  if (option.takes_list()) text += "Several are separated by commas.\n";
  if (!option.default_text.empty()) text += "Default: " + sentence(option.default_text);
  return item(title, text);
}

std::string option_items(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) text += option_item(option);
  return text;
}

std::string examples(const std::vector<Example>& list) {
  std::string text;
  for (const auto& [line, what] : list) text += item(bold("autotune " + line), sentence(what));
  return text.empty() ? text : ".SH EXAMPLES\n" + text;
}

std::string exit_codes() {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : exit_code_meanings())
    text += item(bold(std::to_string(code)), sentence(meaning));
  return text;
}

std::string command_page(const Command& command) {
  std::string text = page_head(command.words, command.summary);
  text += ".SH SYNOPSIS\n" + bold("autotune " + command.words) + " ";
  for (const Option& option : command.options)
    if (option.required) text += bold(option.name) + " " + italic(option.placeholder) + " ";
  text += "[" + italic("OPTION") + "]...";
  for (const Option& positional : command.positionals)
    text +=
        positional.required ? " " + italic(positional.name) : " [" + italic(positional.name) + "]";
  text += "\n.SH DESCRIPTION\n" + sentence(command.summary);
  if (!command.description.empty()) text += ".PP\n" + escaped(command.description) + "\n";
  if (!command.positionals.empty()) text += ".SH ARGUMENTS\n" + option_items(command.positionals);
  text += ".SH OPTIONS\n" + option_items(command.options) + option_items(common_options());
  return text + exit_codes() + examples(command.examples) + ".SH SEE ALSO\n" + bold("autotune") +
         "(1)\n";
}

std::string program_page() {
  std::string text =
      page_head("", "find the fastest way to train or serve a large language model") +
      ".SH SYNOPSIS\n" + bold("autotune") + " " + italic("COMMAND") + " [" + italic("OPTION") +
      "]...\n.SH COMMANDS\n";
  std::vector<Example> firsts;
  for (const Command& command : all_commands()) {
    text += item(bold(command.words),
                 sentence(command.summary) + "See " + bold(page_name(command.words)) + "(1).\n");
    if (!command.examples.empty()) firsts.push_back(command.examples.front());
  }
  text += ".SH OPTIONS\n" + option_items(common_options()) +
          item(bold("--version"), sentence("Show the version and how it was built"));
  text += ".SH FILES\n";
  text += item(italic("./autotune.toml"), sentence("Settings of a project"));
  text += item(italic("$XDG_CONFIG_HOME/autotune/"),
               sentence("config.toml with settings of yours, and profiles, stacks and models of "
                        "yours; ~/.config/autotune without that variable"));
  text += item(italic("$XDG_DATA_HOME/autotune/autotune.db"),
               sentence("The stored runs; below ~/.local/share without that variable"));
  text += ".SH ENVIRONMENT\n";
  text += item(bold("AUTOTUNE_") + italic("OPTION"),
               sentence("The default of an option, as AUTOTUNE_GPU for --gpu"));
  text += item(bold("AUTOTUNE_WORKER"), sentence("The program that runs trials, if not the one "
                                                 "beside autotune"));
  text += item(bold("NO_COLOR"), sentence("No colour, whatever the terminal"));
  return text + exit_codes() + examples(firsts);
}

void write_page(const std::string& folder, const std::string& words, const std::string& text) {
  engine::FileWriter file(folder + "/" + page_name(words) + ".1");
  file.append(text.data(), text.size());
  file.close();
}

int run_man(const Arguments& arguments) {
  if (const auto folder = arguments.text("--output")) {
    std::error_code failed;
    std::filesystem::create_directories(*folder, failed);
    write_page(*folder, "", program_page());
    for (const Command& command : all_commands())
      write_page(*folder, command.words, command_page(command));
    return 0;
  }
  const std::string words = fmt::format("{}", fmt::join(arguments.texts("COMMAND"), " "));
  if (words.empty()) {
    print_result(program_page());
    return 0;
  }
  std::vector<std::string> known;
  for (const Command& command : all_commands()) {
    if (command.words == words) {
      print_result(command_page(command));
      return 0;
    }
    known.push_back(command.words);
  }
  throw engine::InputError(engine::unknown_name("command", words, known, "see `autotune --help`"));
}

}  // namespace

Command man_command() {
  return {.words = "man",
          .summary = "Print a manual page, or write all of them into a folder",
          .examples = {{"man train | man -l -", "Read the page of a command"},
                       {"man --output share/man/man1", "All pages, one file each"}},
          .options = {{.name = "--output",
                       .kind = ValueKind::text,
                       .placeholder = "DIR",
                       .help = "Write every page into this folder"}},
          .positionals = {{.name = "COMMAND",
                           .kind = ValueKind::texts,
                           .help = "The words of a command; none for the program's own page"}},
          .run = run_man};
}

}  // namespace tuner
