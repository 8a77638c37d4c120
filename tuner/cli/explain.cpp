// autotune explain: what an error code means and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/errors.h"
#include "tuner/cli/commands.h"
#include "tuner/space/codes.h"

namespace tuner {
namespace {

std::string list_codes() {
  std::vector<std::vector<std::string>> rows;
  for (const RuleDocument& rule : rule_documents())
    rows.push_back({std::string(rule.code), std::string(rule.title)});
  return format_table({"CODE", "RULE"}, rows, output_width());
}

const RuleDocument& find_rule(std::string code) {
  std::transform(code.begin(), code.end(), code.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::vector<std::string> known;
  for (const RuleDocument& rule : rule_documents()) {
    if (rule.code == code) return rule;
    known.emplace_back(rule.code);
  }
  throw engine::InputError(
      engine::unknown_name("code", code, known, "`autotune explain` lists all of them"));
}

int run_explain(const Arguments& arguments) {
  const auto code = arguments.text("CODE");
  if (!code) {
    print_result(list_codes());
    return 0;
  }
  const RuleDocument& rule = find_rule(*code);
  const Style style(use_color(arguments.color(), Stream::result));
  const auto paragraph = [](std::string_view text) {
    return wrapped_text(text, 2, static_cast<size_t>(output_width()));
  };
  print_result(style.strong(fmt::format("{}: {}", rule.code, rule.title)) + "\n\n" +
               style.strong("Why") + "\n" + paragraph(rule.why) + "\n" +
               style.strong("What to do") + "\n" + paragraph(rule.fix));
  return 0;
}

}  // namespace

Command explain_command() {
  return {
      .words = "explain",
      .summary = "Explain an error code, or list all codes",
      .examples = {{"explain AT0112", "What the code means and what to do"},
                   {"explain", "All codes"}},
      .positionals = {{.name = "CODE", .kind = ValueKind::text, .help = "A code such as AT0112"}},
      .run = run_explain};
}

}  // namespace tuner
