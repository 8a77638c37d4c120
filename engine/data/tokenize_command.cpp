// The verb "tokenize": its options and what it prints.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "engine/data/tokenize.h"

namespace engine {
namespace {

struct Command {
  TokenizeOptions options;
  bool json = false;
};

// An option with a value, or a switch.
struct Option {
  std::string name;
  std::function<void(Command&, const std::string&)> take;
  bool is_switch = false;
};

const std::vector<Option>& options() {
  using Text = const std::string&;
  static const std::vector<Option> kOptions = {
      {"--input", [](Command& c, Text value) { c.options.inputs.push_back(value); }},
      {"--output", [](Command& c, Text value) { c.options.output = value; }},
      {"--tokenizer", [](Command& c, Text value) { c.options.tokenizer = value; }},
      {"--format",
       [](Command& c, Text value) {
         if (value != "text" && value != "jsonl")
           throw InputError(fmt::format("--format must be text or jsonl, not '{}'", value));
         c.options.format = value == "text" ? TextFormat::text : TextFormat::json_lines;
       }},
      {"--key", [](Command& c, Text value) { c.options.key = value; }},
      {"--separator", [](Command& c, Text value) { c.options.separator = value; }},
      {"--no-end", [](Command& c, Text) { c.options.end_documents = false; }, true},
      {"--skip-bad-lines", [](Command& c, Text) { c.options.skip_bad_lines = true; }, true},
      {"--json", [](Command& c, Text) { c.json = true; }, true},
  };
  return kOptions;
}

const Option& find_option(const std::string& name) {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  throw InputError(
      unknown_name("option", name, names, "tokenize needs --input FILE and --output PREFIX"));
}

// A word that is no option is one more input.
Command parse(std::span<const std::string> arguments) {
  Command command;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with("--")) {
      command.options.inputs.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const Option& option = find_option(word.substr(0, equals));
    if (option.is_switch && equals != std::string::npos)
      throw InputError(fmt::format("{} takes no value", option.name));
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!option.is_switch) {
      if (++i == arguments.size()) throw InputError(fmt::format("{} needs a value", option.name));
      value = arguments[i];
    }
    option.take(command, value);
  }
  return command;
}

void print(const TokenizeProgress& done, const Command& command, std::ostream& out) {
  if (command.json) {
    out << Json{{"schema", "autotune.tokenize/1"},
                {"data_prefix", command.options.output},
                {"tokenizer", command.options.tokenizer},
                {"documents", done.documents},
                {"empty_documents", done.empty_documents},
                {"bad_lines", done.bad_lines},
                {"tokens", done.tokens},
                {"input_bytes", done.bytes_total}}
               .dump(2)
        << '\n';
    return;
  }
  out << fmt::format("{0}.bin, {0}.idx: {1} tokens in {2} documents", command.options.output,
                     format_grouped(done.tokens), format_grouped(done.documents));
  if (done.empty_documents > 0)
    out << fmt::format("; {} empty ones left out", format_grouped(done.empty_documents));
  if (done.bad_lines > 0)
    out << fmt::format("; {} bad lines left out", format_grouped(done.bad_lines));
  out << '\n';
}

}  // namespace

int tokenize_command(std::span<const std::string> arguments, std::ostream& out,
                     std::ostream& progress) {
  const Command command = parse(arguments);
  const auto report = [&](const TokenizeProgress& now) {
    const auto percent = now.bytes_total == 0 ? 100 : 100 * now.bytes_read / now.bytes_total;
    progress << fmt::format("\r{:3} %  {} tokens", percent, format_grouped(now.tokens))
             << std::flush;
  };
  const TokenizeProgress done = tokenize(command.options, report);
  progress << '\n';
  print(done, command, out);
  return static_cast<int>(ExitCode::found);
}

}  // namespace engine
