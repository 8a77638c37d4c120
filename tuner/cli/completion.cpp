// Completion, and `autotune completion SHELL`, which prints what a shell needs to use it.
#include "tuner/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/base/errors.h"
#include "tuner/cli/commands.h"

namespace tuner {
namespace {

std::vector<Candidate> beginning_with(const std::string& start, std::vector<Candidate> all) {
  std::erase_if(all, [&](const Candidate& one) { return !one.word.starts_with(start); });
  return all;
}

std::vector<Candidate> verbs(std::span<const Command> commands, const Words& before) {
  std::vector<Candidate> found;
  std::set<std::string> seen;
  for (const Command& command : commands) {
    const Words own = split(command.words, ' ');
    if (own.size() <= before.size() || !std::equal(before.begin(), before.end(), own.begin()))
      continue;
    const bool whole = own.size() == before.size() + 1;
    if (seen.insert(own[before.size()]).second)
      found.push_back({own[before.size()], whole ? command.summary : ""});
  }
  if (before.empty()) found.push_back({"help", "Explain a command"});
  return found;
}

std::vector<Candidate> values(const Option& option, const std::string& typed) {
  std::vector<std::string> words = option.choices;
  if (option.suggest != nullptr)
    for (std::string& word : option.suggest()) words.push_back(std::move(word));
  // Of a list, the last element is completed.
  const size_t comma = option.takes_list() ? typed.rfind(',') : std::string::npos;
  const std::string kept = comma == std::string::npos ? "" : typed.substr(0, comma + 1);
  std::vector<Candidate> found;
  for (const std::string& word : words) found.push_back({kept + word, ""});
  return beginning_with(typed, std::move(found));
}

std::vector<Candidate> option_names(const std::vector<Option>& options, const Words& given) {
  std::vector<Candidate> found;
  for (const Option& option : options) {
    const bool there = std::any_of(given.begin(), given.end(), [&](const std::string& word) {
      return word.substr(0, word.find('=')) == option.name;
    });
    if (there && !option.takes_list()) continue;
    found.push_back({option.name, option.help});
    if (option.kind == ValueKind::negatable)
      found.push_back({option.negation(), "Not: " + option.help});
  }
  return found;
}

// The option whose value the word behind `words` is; null when it is none.
const Option* awaited(const std::vector<Option>& options, const Words& words) {
  if (words.empty()) return nullptr;
  for (const Option& option : options)
    if (option.takes_value() && words.back() == option.name) return &option;
  return nullptr;
}

// The positional that stands next behind `words`, or the last one if it takes a list.
const Option* next_positional(const Command& command, const std::vector<Option>& options,
                              const Words& words) {
  size_t loose = 0;
  for (size_t i = 0; i < words.size(); ++i)
    if (!is_option(words[i]) &&
        awaited(options, Words(words.begin(), words.begin() + i)) == nullptr)
      ++loose;
  if (loose < command.positionals.size()) return &command.positionals[loose];
  if (!command.positionals.empty() && command.positionals.back().takes_list())
    return &command.positionals.back();
  return nullptr;
}

std::vector<Candidate> complete_arguments(const Command& command, const Words& given,
                                          const std::string& typed) {
  std::vector<Option> options = command.options;
  options.insert(options.end(), common_options().begin(), common_options().end());
  if (const Option* option = awaited(options, given)) return values(*option, typed);
  if (const size_t equals = typed.find('=');
      typed.starts_with("--") && equals != std::string::npos) {
    const Option* option = awaited(options, {typed.substr(0, equals)});
    if (option == nullptr) return {};
    std::vector<Candidate> found = values(*option, typed.substr(equals + 1));
    for (Candidate& one : found) one.word = typed.substr(0, equals + 1) + one.word;
    return found;
  }
  if (!typed.starts_with('-'))
    if (const Option* positional = next_positional(command, options, given))
      return values(*positional, typed);
  return beginning_with(typed, option_names(options, given));
}

// Every shell asks the program itself: `autotune complete -- WORDS` prints a candidate a line, with
// its help behind a tab.
constexpr std::string_view kBash =
    R"(# bash completion of autotune; load it with: source <(autotune completion bash)
_autotune() {
  local joined=() head="" word line
  # bash breaks words at '='; join them again.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ ${#joined[@]} -gt 0 && ( $word == "=" || ${joined[-1]} == *= ) ]]; then
      joined[-1]+="$word"
    else
      joined+=("$word")
    fi
  done
  if [[ ${joined[-1]} == --*=* ]]; then head="${joined[-1]%%=*}="; fi
  COMPREPLY=()
  while IFS=$'\t' read -r line _; do
    COMPREPLY+=("${line#"$head"}")
  done < <("${COMP_WORDS[0]}" complete -- "${joined[@]}" 2>/dev/null)
}
complete -o default -F _autotune autotune
)";

constexpr std::string_view kZsh = R"(#compdef autotune
# zsh completion of autotune; load it with: source <(autotune completion zsh)
_autotune() {
  local line word
  local -a found
  while IFS=$'\t' read -r word line; do
    found+=("${word//:/\\:}${line:+:$line}")
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ${#found} )); then _describe -o 'autotune' found; else _files; fi
}
if [ "${funcstack[1]}" = "_autotune" ]; then _autotune "$@"; else compdef _autotune autotune; fi
)";

constexpr std::string_view kFish =
    R"(# fish completion of autotune; load it with: autotune completion fish | source
function __autotune_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] complete -- $words[2..-1] 2>/dev/null
end
complete -c autotune -a '(__autotune_complete)'
)";

int run_completion(const Arguments& arguments) {
  const std::string shell = arguments.text("SHELL").value();
  print_result(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return 0;
}

}  // namespace

std::vector<Candidate> complete(std::span<const Command> commands, const Words& words) {
  const Words given(words.begin(), words.empty() ? words.end() : words.end() - 1);
  const std::string typed = words.empty() ? "" : words.back();
  if (!given.empty() && given.front() == "help")
    return beginning_with(typed, verbs(commands, Words(given.begin() + 1, given.end())));
  const Command* command = nullptr;
  size_t length = 0;
  for (const Command& one : commands) {
    const Words own = split(one.words, ' ');
    if (own.size() > length && own.size() <= given.size() &&
        std::equal(own.begin(), own.end(), given.begin())) {
      command = &one;
      length = own.size();
    }
  }
  std::vector<Candidate> found;
  if (given.size() == length || command == nullptr)
    found = beginning_with(typed, verbs(commands, given));
  if (command == nullptr) return found;
  const auto arguments = complete_arguments(
      *command, Words(given.begin() + static_cast<ptrdiff_t>(length), given.end()), typed);
  found.insert(found.end(), arguments.begin(), arguments.end());
  return found;
}

Command completion_command() {
  return {.words = "completion",
          .summary = "Print what a shell needs to complete autotune's commands, options and names",
          .examples = {{"completion bash", "Load it with: source <(autotune completion bash)"},
                       {"completion fish", "Load it with: autotune completion fish | source"}},
          .positionals = {{.name = "SHELL",
                           .kind = ValueKind::text,
                           .help = "bash, zsh or fish",
                           .choices = {"bash", "zsh", "fish"},
                           .required = true}},
          .run = run_completion};
}

}  // namespace tuner
