// Parsing with CLI11: it splits the words into options and positionals; the tables decide the rest.
#include "tuner/cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/errors.h"
#include "engine/base/units.h"

namespace tuner {
namespace {

// What an option reads as when its value is missing; no shell can pass it.
constexpr std::string_view kNoValue = "\x01";

std::string shown_number(ValueKind kind, double value) {
  if (kind == ValueKind::bytes) return engine::format_bytes(value);
  if (kind == ValueKind::seconds) return engine::format_seconds(value);
  if (std::abs(value) <= 1e15 && value == std::floor(value))
    return engine::format_grouped(static_cast<int64_t>(value));
  return fmt::format("{:g}", value);
}

std::string legal_numbers(const Option& option) {
  return fmt::format("between {} and {}", shown_number(option.kind, option.low),
                     shown_number(option.kind, option.high));
}

}  // namespace

// Reads the values of one command line and collects every problem.
class ArgumentsBuilder {
 public:
  explicit ArgumentsBuilder(const Command& command) : command_(command), options_(command.options) {
    options_.insert(options_.end(), common_options().begin(), common_options().end());
    for (const std::vector<Option>* table : {&std::as_const(options_), &command_.positionals})
      for (const Option& option : *table) arguments_.values_[option.name].kind = option.kind;
  }

  Arguments build(const Words& words, const std::vector<Setting>& settings) {
    const auto end = std::find(words.begin(), words.end(), "--");
    split_words(Words(words.begin(), end));
    if (end != words.end()) loose_.insert(loose_.end(), end + 1, words.end());
    read_positionals();
    arguments_.color_ = requested_color(words);
    arguments_.command_line_ = "autotune " + command_.words;
    for (const std::string& word : words) arguments_.command_line_ += " " + quoted_for_shell(word);
    for (const Setting& setting : settings) apply(setting);
    check_required(options_);
    check_required(command_.positionals);
    if (!problems_.empty()) throw engine::InputError(problems_);
    return std::move(arguments_);
  }

 private:
  void problem(std::string text) { problems_.push_back(std::move(text)); }

  // Leaves the words that belong to no option in loose_.
  void split_words(Words words) {
    std::erase_if(words, [this](const std::string& word) {
      const bool hollow = word.starts_with("--") && word.ends_with('=');
      if (hollow) problem(fmt::format("{} lacks a value", word));
      return hollow;
    });
    CLI::App app;
    app.set_help_flag();
    app.allow_extras();
    std::map<std::string, CLI::Option*> handles;
    for (const Option& option : options_) {
      std::string names = option.letter == 0 ? "" : fmt::format("-{},", option.letter);
      names += option.name;
      if (option.takes_value()) names = fmt::format("{}{{{}}}", names, kNoValue);
      handles[option.name] =
          app.add_flag(names)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (option.takes_value()) handles[option.name]->expected(0, 1);
      if (option.kind == ValueKind::negatable)
        handles[option.negation()] =
            app.add_flag(option.negation())->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes them from the back
    for (const Option& option : options_) {
      const CLI::results_t& results = handles[option.name]->results();
      if (option.takes_value()) {
        read_values(option, results);
      } else {
        const CLI::results_t none;
        read_flag(
            option, results,
            option.kind == ValueKind::negatable ? handles[option.negation()]->results() : none);
      }
    }
    sort_out_unknown(app.remaining(), words);
  }

  // Gives an option that the command line lacks its configured value. It becomes part of the stored
  // command line, which so gives the same answer elsewhere.
  void apply(const Setting& setting) {
    const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& option) {
      return option.name == setting.option;
    });
    if (found == options_.end() || arguments_.values_[found->name].given) return;
    const size_t sound = problems_.size();
    if (found->takes_value()) {
      read_values(*found, {setting.value});
      arguments_.command_line_ +=
          fmt::format(" {} {}", found->name, quoted_for_shell(setting.value));
    } else {
      apply_flag(*found, setting.value);
    }
    for (size_t i = sound; i < problems_.size(); ++i)
      problems_[i] += fmt::format(" (set by {})", setting.origin);
    if (found->name == "--color") arguments_.color_ = requested_color({"--color", setting.value});
  }

  void apply_flag(const Option& option, const std::string& text) {
    const bool on = text == "true" || text == "1" || text == "yes" || text == "on";
    if (!on && text != "false" && text != "0" && text != "no" && text != "off")
      return problem(fmt::format("{} must be set to true or false, not '{}'", option.name,
                                 text.substr(0, 64)));
    if (!on && option.kind == ValueKind::flag) return;
    Arguments::Value& value = arguments_.values_[option.name];
    value.given = true;
    value.on = on;
    arguments_.command_line_ += " " + (on ? option.name : option.negation());
  }

  // Takes the words that CLI11 could not place: unknown options, and those that are loose.
  void sort_out_unknown(const Words& unplaced, const Words& words) {
    std::vector<std::string> known;
    for (const Option& option : options_) {
      known.push_back(option.name);
      if (option.kind == ValueKind::negatable) known.push_back(option.negation());
    }
    for (size_t i = 0; i < unplaced.size(); ++i) {
      if (!is_option(unplaced[i])) {
        loose_.push_back(unplaced[i]);
        continue;
      }
      const std::string name = unplaced[i].substr(0, unplaced[i].find('='));
      problem(engine::unknown_name("option", name, known,
                                   fmt::format("see `autotune help {}`", command_.words)));
      // The word right behind is most likely its value: no second message.
      const auto next = std::find(words.begin(), words.end(), unplaced[i]) + 1;
      if (i + 1 < unplaced.size() && next != words.end() && *next == unplaced[i + 1] &&
          !is_option(*next))
        ++i;
    }
  }

  void read_flag(const Option& option, const CLI::results_t& on, const CLI::results_t& off) {
    for (const auto* results : {&on, &off})
      for (const std::string& result : *results)
        if (result != "true")
          problem(fmt::format("{} takes no value, but got '{}'", option.name, result));
    if (!on.empty() && !off.empty())
      problem(
          fmt::format("{} and {} contradict each other; give one", option.name, option.negation()));
    Arguments::Value& value = arguments_.values_[option.name];
    value.given = !on.empty() || !off.empty();
    value.on = !on.empty();
  }

  void read_values(const Option& option, const CLI::results_t& results) {
    Arguments::Value& value = arguments_.values_[option.name];
    value.given = !results.empty();
    if (results.size() > 1 && !option.takes_list())
      problem(fmt::format("{} is given {} times; give it once", option.name, results.size()));
    for (const std::string& text : results) {
      if (text == kNoValue) {
        problem(fmt::format("{} lacks a value; write {} {}", option.name, option.name,
                            option.placeholder));
      } else if (option.takes_list()) {
        for (const std::string& part : split(text, ',')) read_value(option, part, value);
      } else {
        read_value(option, text, value);
      }
    }
  }

  void read_value(const Option& option, const std::string& text, Arguments::Value& value) {
    if (text.empty()) return problem(fmt::format("{} has an empty value", option.name));
    try {
      switch (option.kind) {
        case ValueKind::integer:
          return read_integer(option, text, value);
        case ValueKind::integers:
          return read_range(option, text, value);
        case ValueKind::count:
          value.number = engine::parse_count(text, option.name);
          break;
        case ValueKind::bytes:
          value.number = engine::parse_bytes(text, option.name);
          break;
        case ValueKind::seconds:
          value.number = engine::parse_seconds(text, option.name);
          break;
        case ValueKind::number:
          value.number = parse_number(option, text);
          break;
        default:
          return read_text(option, text, value);
      }
    } catch (const engine::InputError& error) {
      return problem(error.what());
    }
    check_number(option, text, value.number);
  }

  static double parse_number(const Option& option, const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number))
      throw engine::InputError(fmt::format("{} '{}' is not a number; it must lie {}", option.name,
                                           text.substr(0, 64), legal_numbers(option)));
    return number;
  }

  bool check_number(const Option& option, const std::string& text, double number) {
    const bool legal = number >= option.low && number <= option.high;
    if (!legal)
      problem(fmt::format("{} '{}' is out of range; it must lie {}", option.name,
                          text.substr(0, 64), legal_numbers(option)));
    return legal;
  }

  // The whole number, when it is legal.
  std::optional<int64_t> parse_integer(const Option& option, std::string_view text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
      problem(fmt::format("{} '{}' is not a whole number; it must lie {}", option.name,
                          text.substr(0, 64), legal_numbers(option)));
      return std::nullopt;
    }
    const double size = error == std::errc::result_out_of_range
                            ? std::copysign(HUGE_VAL, text.front() == '-' ? -1.0 : 1.0)
                            : static_cast<double>(number);
    if (!check_number(option, std::string(text), size)) return std::nullopt;
    return number;
  }

  void read_integer(const Option& option, const std::string& text, Arguments::Value& value) {
    if (const auto number = parse_integer(option, text)) value.integers.push_back(*number);
  }

  // "4" or "1..8".
  void read_range(const Option& option, const std::string& text, Arguments::Value& value) {
    constexpr int64_t kLongestRange = 4096;
    const size_t dots = text.find("..");
    if (dots == std::string::npos) return read_integer(option, text, value);
    const auto first = parse_integer(option, std::string_view(text).substr(0, dots));
    const auto last = parse_integer(option, std::string_view(text).substr(dots + 2));
    if (!first || !last) return;
    if (*last < *first || *last - *first >= kLongestRange)
      return problem(fmt::format("{} '{}' is not a range; write it like 1..8, of at most {} values",
                                 option.name, text, kLongestRange));
    for (int64_t number = *first; number <= *last; ++number) value.integers.push_back(number);
  }

  void read_text(const Option& option, const std::string& text, Arguments::Value& value) {
    value.texts.push_back(text);
    const auto& choices = option.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
      return problem(engine::unknown_name(option.name + " value", text, choices,
                                          fmt::format("choose {}", fmt::join(choices, ", "))));
    if (option.check == nullptr) return;
    if (std::string wrong = option.check(text); !wrong.empty())
      problem(fmt::format("{} '{}' {}", option.name, text.substr(0, 64), wrong));
  }

  void read_positionals() {
    size_t next = 0;
    for (const Option& positional : command_.positionals) {
      Arguments::Value& value = arguments_.values_[positional.name];
      const size_t last =
          positional.takes_list() ? loose_.size() : std::min(next + 1, loose_.size());
      for (; next < last; ++next) {
        value.given = true;
        for (const std::string& part :
             positional.takes_list() ? split(loose_[next], ',') : Words{loose_[next]})
          read_value(positional, part, value);
      }
    }
    for (; next < loose_.size(); ++next)
      problem(fmt::format("'{}' is one word too many; see `autotune help {}`",
                          loose_[next].substr(0, 64), command_.words));
  }

  void check_required(const std::vector<Option>& table) {
    for (const Option& option : table)
      if (option.required && !arguments_.values_[option.name].given)
        problem(option.is_positional() ? fmt::format("{} is missing: {}", option.name, option.help)
                                       : fmt::format("{} {} is missing: {}", option.name,
                                                     option.placeholder, option.help));
  }

  const Command& command_;
  std::vector<Option> options_;
  Arguments arguments_;
  Words loose_;
  std::vector<std::string> problems_;
};

Arguments parse_arguments(const Command& command, const Words& words,
                          const std::vector<Setting>& settings) {
  return ArgumentsBuilder(command).build(words, settings);
}

}  // namespace tuner
