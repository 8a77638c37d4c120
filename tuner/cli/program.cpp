// The program.
#include "tuner/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>

#include "engine/base/errors.h"
#include "tuner/cli/completion.h"
#include "tuner/cli/help.h"
#include "tuner/cli/settings.h"

namespace tuner {
namespace {

int exit_status(engine::ExitCode code) { return static_cast<int>(code); }

bool has_longer_verbs(std::span<const Command> commands, const std::string& verb) {
  return std::any_of(commands.begin(), commands.end(), [&verb](const Command& command) {
    return command.words.starts_with(verb + " ");
  });
}

int print_help(std::span<const Command> commands, const CommandMatch& match, HelpLevel level) {
  const Style style(use_color(requested_color(match.rest), Stream::result));
  const bool full = level == HelpLevel::full;
  if (match.command != nullptr) print_result(command_help(*match.command, full, style));
  if (match.verb.empty()) {
    print_result(program_help(commands, full, style));
  } else if (match.command == nullptr) {
    print_result(group_help(commands, match.verb, style));
  } else if (has_longer_verbs(commands, match.verb)) {
    print_result("\n" + group_help(commands, match.verb, style));
  }
  return exit_status(engine::ExitCode::found);
}

// `autotune complete -- WORDS`: what the scripts of `autotune completion` ask.
int print_candidates(std::span<const Command> commands, const Words& words) {
  const auto separator = std::find(words.begin(), words.end(), "--");
  const Words typed(separator == words.end() ? separator : separator + 1, words.end());
  for (const auto& [word, help] : complete(commands, typed))
    print_result(help.empty() ? word + "\n" : fmt::format("{}\t{}\n", word, help));
  return exit_status(engine::ExitCode::found);
}

Arguments checked_arguments(std::span<const Command> commands, const CommandMatch& match) {
  const Settings settings = Settings::load(commands);
  for (const std::string& warning : settings.warnings())
    print_message("warning: " + warning + "\n");
  return parse_arguments(*match.command, match.rest, settings.of(*match.command));
}

int dispatch(std::span<const Command> commands, const Words& words) {
  if (!words.empty() && words.front() == "--version") {
    print_result(version_text());
    return exit_status(engine::ExitCode::found);
  }
  if (!words.empty() && words.front() == "complete") return print_candidates(commands, words);
  if (!words.empty() && words.front() == "help")
    return print_help(commands, match_command(commands, Words(words.begin() + 1, words.end())),
                      HelpLevel::full);
  const CommandMatch match = match_command(commands, words);
  if (const HelpLevel level = requested_help(match.rest); level != HelpLevel::none)
    return print_help(commands, match, level);
  if (match.command != nullptr) return match.command->run(checked_arguments(commands, match));
  const Style style(use_color(requested_color(words), Stream::message));
  print_message(match.verb.empty() ? program_help(commands, false, style)
                                   : group_help(commands, match.verb, style));
  throw engine::InputError(match.verb.empty()
                               ? std::string("which command? see above")
                               : fmt::format("'{}' needs one more word; see above", match.verb));
}

// Prints the error that is being handled.
int report_error(const Words& words) {
  const Style style(use_color(requested_color(words), Stream::message));
  const std::string error = style.bad("error: ");
  try {
    throw;
  } catch (const engine::InputError& bad) {
    for (const std::string& problem : bad.problems()) print_message(error + problem + "\n");
    return exit_status(bad.code());
  } catch (const engine::Error& known) {
    print_message(error + known.what() + "\n");
    return exit_status(known.code());
  } catch (const std::bad_alloc&) {
    print_message(error + "this machine has too little free memory for the request\n");
    return exit_status(engine::ExitCode::environment);
  } catch (const std::exception& ours) {
    print_message(
        fmt::format("{}internal error, our fault: {}\nPlease report it with the command "
                    "line and the output of `autotune --version`.\n",
                    error, ours.what()));
    return exit_status(engine::ExitCode::internal);
  }
}

}  // namespace

int run_program(std::span<const Command> commands, const Words& words) {
  int status = 0;
  try {
    guard_standard_streams();
    status = dispatch(commands, words);
  } catch (...) {
    status = report_error(words);
  }
  try {
    finish_results();
  } catch (...) {
    status = report_error(words);
  }
  return status;
}

}  // namespace tuner
