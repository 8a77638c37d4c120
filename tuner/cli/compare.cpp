// autotune compare: two runs or two plans, and why one is faster.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/report/compare.h"

namespace tuner {
namespace {

// "17", "17:baseline", "last:2", "a.json", "a.json:2".
struct Operand {
  std::string source, plan;
};

Operand split_operand(const std::string& text) {
  std::error_code error;
  const size_t colon = text.rfind(':');
  // A file may have a colon in its name.
  if (colon == std::string::npos || std::filesystem::exists(text, error)) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 16 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

nlohmann::json stored_answer(const Operand& operand, const Arguments& arguments) {
  const Store store(store_path(arguments), Access::read);
  RunRecord run;
  if (operand.source == "last") {
    auto last = store.last_run();
    if (!last) throw engine::InputError("there is no run yet; `autotune runs` lists them");
    run = std::move(*last);
  } else {
    run = store.run(std::stoll(operand.source));
  }
  if (run.answer.empty())
    throw engine::InputError(
        fmt::format("run {} was not finished and has no answer; run its command again: {}", run.id,
                    run.command_line));
  return engine::parse_json(run.answer, fmt::format("the stored answer of run {}", run.id));
}

nlohmann::json answer_of(const Operand& operand, const Arguments& arguments) {
  if (operand.source == "last" || is_number(operand.source))
    return stored_answer(operand, arguments);
  std::error_code error;
  if (!std::filesystem::exists(operand.source, error))
    throw engine::InputError(fmt::format(
        "'{}' is neither the number of a run nor a file; `autotune runs` lists the runs",
        operand.source.substr(0, 64)));
  const engine::MappedFile file(operand.source);
  const auto bytes = file.bytes();
  return engine::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                            operand.source);
}

int run_compare(const Arguments& arguments) {
  const std::string a = arguments.text("A").value(), b = arguments.text("B").value();
  const Operand first = split_operand(a), second = split_operand(b);
  const nlohmann::json one = answer_of(first, arguments), other = answer_of(second, arguments);
  const auto name = [](const std::string& text) {
    return is_number(text.substr(0, text.find(':'))) ? "run " + text : text;
  };
  const nlohmann::json answer =
      compare_answers({name(a), one, first.plan}, {name(b), other, second.plan});
  if (const auto path = arguments.text("--html")) {
    write_page(*path, render_html(answer));
    return 0;
  }
  print_answer(answer, arguments);
  return 0;
}

}  // namespace

Command compare_command() {
  return {.words = "compare",
          .summary = "Compare two runs or two plans: what differs, and why one is faster",
          .description =
              "A and B are numbers of stored runs (`last` is the newest one) or files that --json "
              "wrote. Behind a colon stands which plan of it is meant: best, baseline, 2 for the "
              "second in the table of runners-up, or of a sweep the number of GPUs.",
          .examples = {{"compare 17 18", "The best plans of two runs"},
                       {"compare last:baseline last", "What the best plan saves"},
                       {"compare 17 17:2 --json", "The runner-up, as JSON"},
                       {"compare old.json new.json --html out.html", "Two answers, as a page"}},
          .options = {html_option(), json_option(), database_option()},
          .positionals = {{.name = "A",
                           .kind = ValueKind::text,
                           .help = "A run or file, with :PLAN for another plan than its best",
                           .required = true},
                          {.name = "B",
                           .kind = ValueKind::text,
                           .help = "What it is compared with, likewise",
                           .required = true}},
          .run = run_compare};
}

}  // namespace tuner
