// Typed access to the arguments, and the options that commands share.
#include "tuner/cli/command.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "tuner/store/store.h"

namespace tuner {

const Arguments::Value& Arguments::value(const std::string& name,
                                         std::initializer_list<ValueKind> kinds) const {
  const auto found = values_.find(name);
  engine::expect(found != values_.end(), "option " + name + " in the command's table");
  engine::expect(std::find(kinds.begin(), kinds.end(), found->second.kind) != kinds.end(),
                 "option " + name + " read with the type of its table");
  return found->second;
}

bool Arguments::has(const std::string& name) const {
  const auto found = values_.find(name);
  engine::expect(found != values_.end(), "option " + name + " in the command's table");
  return found->second.given;
}

Arguments Arguments::typed_only() const {
  Arguments typed = *this;
  for (auto& [name, value] : typed.values_)
    if (value.configured) value = {.kind = value.kind};
  return typed;
}

bool Arguments::flag(const std::string& name) const { return value(name, {ValueKind::flag}).on; }

std::optional<bool> Arguments::toggle(const std::string& name) const {
  const Value& found = value(name, {ValueKind::negatable});
  return found.given ? std::optional(found.on) : std::nullopt;
}

std::optional<int64_t> Arguments::integer(const std::string& name) const {
  const Value& found = value(name, {ValueKind::integer, ValueKind::integers});
  return found.given ? std::optional(found.integers.front()) : std::nullopt;
}

std::optional<double> Arguments::number(const std::string& name) const {
  const Value& found =
      value(name, {ValueKind::count, ValueKind::number, ValueKind::bytes, ValueKind::seconds});
  return found.given ? std::optional(found.number) : std::nullopt;
}

std::optional<std::string> Arguments::text(const std::string& name) const {
  const Value& found = value(name, {ValueKind::text, ValueKind::texts});
  return found.given ? std::optional(found.texts.front()) : std::nullopt;
}

const std::vector<int64_t>& Arguments::integers(const std::string& name) const {
  return value(name, {ValueKind::integer, ValueKind::integers}).integers;
}

const std::vector<std::string>& Arguments::texts(const std::string& name) const {
  return value(name, {ValueKind::texts}).texts;
}

const std::vector<Option>& common_options() {
  static const std::vector<Option> kOptions = {
      {.name = "--color",
       .kind = ValueKind::text,
       .placeholder = "WHEN",
       .help = "Colour the output",
       .default_text = "auto",
       .choices = {"auto", "always", "never"}},
      {.name = "--ascii", .help = "Write no character beyond ASCII in reports"},
      {.name = "--wide", .help = "Keep every column of the tables in reports, however wide"},
      {.name = "--help", .help = "Show the whole help, or with -h a short one", .letter = 'h'}};
  return kOptions;
}

namespace {

// The runs in the usual place; none when they cannot be read.
std::vector<std::string> stored_runs() {
  std::vector<std::string> ids;
  try {
    for (const RunSummary& run : Store(default_store_path(), Access::read).runs())
      ids.push_back(std::to_string(run.id));
  } catch (const engine::Error&) {
    ids.clear();
  }
  return ids;
}

}  // namespace

Option run_argument(ValueKind kind, std::string help, bool required) {
  return {.name = "ID",
          .kind = kind,
          .help = std::move(help),
          .low = 1,
          .required = required,
          .suggest = stored_runs};
}

Option json_option() { return {.name = "--json", .help = "Write the answer as JSON"}; }

Option price_option() {
  return {.name = "--gpu-hour-price",
          .kind = ValueKind::number,
          .placeholder = "P",
          .help = "Price of one GPU for one hour; the answer then has the cost",
          .low = 0.000001,
          .high = 1e6};
}

Option html_option() {
  return {.name = "--html",
          .kind = ValueKind::text,
          .placeholder = "FILE",
          .help = "Write a page for a browser, with charts, to this file; - is standard output"};
}

Option database_option() {
  return {.name = "--db",
          .kind = ValueKind::text,
          .placeholder = "PATH",
          .help = "Keep the runs in this file",
          .default_text = "$XDG_DATA_HOME/autotune/autotune.db"};
}

Option tokenizer_option() {
  return {.name = "--tokenizer",
          .kind = ValueKind::text,
          .placeholder = "NAME",
          .help = "bytes, or the path of a sentencepiece model",
          .default_text = "bytes"};
}

Option count_option(const std::string& name, const std::string& help, const std::string& fallback,
                    double low) {
  return {.name = name,
          .kind = ValueKind::integer,
          .placeholder = "N",
          .help = help,
          .default_text = fallback,
          .low = low,
          .high = 1e9};
}

}  // namespace tuner
