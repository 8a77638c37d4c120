// Command: an option table and a function. Parsing, help, completion and man pages come from these
// tables.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/cli/output.h"

namespace tuner {

enum class ValueKind : uint8_t {
  flag,       // --json
  negatable,  // --sp and --no-sp
  integer,    // 8
  count,      // 175b
  number,     // 0.5
  bytes,      // 80GiB
  seconds,    // 14d
  text,
  integers,  // 1,2,4 and 1..8, in any mixture
  texts,     // none,selective
};

// One option ("--gpus") or, with a name that does not begin with a dash ("FILE"), one positional.
struct Option {
  std::string name;
  ValueKind kind = ValueKind::flag;
  std::string placeholder = {};           // "N"; of a positional its name is shown
  std::string help = {};                  // one sentence without a full stop
  std::string default_text = {};          // shown in the help, "the preset's"
  std::vector<std::string> choices = {};  // the legal texts; empty = any
  double low = 0;                         // legal numbers of the numeric kinds
  double high = 1e15;
  bool required = false;
  char letter = 0;  // 'y' for -y
  // Further check of each text: returns what is wrong with it, or an empty string.
  std::string (*check)(const std::string& value) = nullptr;
  // Names that are legal beside others, for completion.
  std::vector<std::string> (*suggest)() = nullptr;

  bool takes_value() const { return kind != ValueKind::flag && kind != ValueKind::negatable; }
  bool takes_list() const { return kind == ValueKind::integers || kind == ValueKind::texts; }
  bool is_positional() const { return name.front() != '-'; }
  std::string negation() const { return "--no-" + name.substr(2); }
};

// What the command line gave, checked against the table. Asking for an option that the table lacks,
// or with the wrong type, is our own mistake and throws std::logic_error.
class Arguments {
 public:
  bool has(const std::string& name) const;                         // given by the user
  bool flag(const std::string& name) const;                        // flag: given
  std::optional<bool> toggle(const std::string& name) const;       // negatable
  std::optional<int64_t> integer(const std::string& name) const;   // integer; of a list the first
  std::optional<double> number(const std::string& name) const;     // count, number, bytes, seconds
  std::optional<std::string> text(const std::string& name) const;  // text; of a list the first
  const std::vector<int64_t>& integers(const std::string& name) const;   // empty when not given
  const std::vector<std::string>& texts(const std::string& name) const;  // empty when not given

  // Without the values of settings: for what goes on with values of its own.
  Arguments typed_only() const;

  ColorChoice color() const { return color_; }
  bool ascii() const { return flag("--ascii"); }
  bool wide() const { return flag("--wide"); }
  // What was typed, fit for a shell: "autotune train --model 175b --gpus 1024".
  const std::string& command_line() const { return command_line_; }

 private:
  friend class ArgumentsBuilder;
  struct Value {
    ValueKind kind = ValueKind::flag;
    bool given = false;
    bool configured = false;  // by a setting
    bool on = false;
    double number = 0;
    std::vector<int64_t> integers = {};
    std::vector<std::string> texts = {};
  };
  const Value& value(const std::string& name, std::initializer_list<ValueKind> kinds) const;

  std::map<std::string, Value> values_;
  ColorChoice color_ = ColorChoice::when_terminal;
  std::string command_line_;
};

struct Example {
  std::string line;  // without "autotune "
  std::string what;
};

struct Command {
  std::string words;             // "estimate train"
  std::string summary;           // one sentence without a full stop
  std::string description = {};  // paragraphs for the long help; may be empty
  std::vector<Example> examples = {};
  std::vector<Option> options = {};
  std::vector<Option> positionals = {};
  // Returns the exit code; throws engine::Error and its kin.
  int (*run)(const Arguments&) = nullptr;
};

// Options that every command understands: --help, -h, --color, --ascii, --wide.
const std::vector<Option>& common_options();

// All commands, in the order of the help.
const std::vector<Command>& all_commands();

// Options that many commands share.
Option json_option();
Option database_option();
Option price_option();
Option html_option();
// How text becomes tokens.
Option tokenizer_option();
// A whole number from `low` on.
Option count_option(const std::string& name, const std::string& help, const std::string& fallback,
                    double low = 1);
// The positional ID of stored runs.
Option run_argument(ValueKind kind, std::string help, bool required);

}  // namespace tuner
