// autotune report: shows a stored answer again.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/report/report.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

RunRecord find_run(const Store& store, const Arguments& arguments) {
  if (const auto id = arguments.integer("ID")) return store.run(*id);
  if (auto last = store.last_run()) return std::move(*last);
  throw engine::InputError(
      "there is no run to report yet; `autotune train --model 175b --gpus 1024` makes one");
}

// Of forms that hold nothing but the answer.
std::string whole_answer(const RunRecord& run) {
  if (run.answer.empty())
    throw engine::InputError(fmt::format(
        "run {} was not finished and has no answer; run its command again: {}, or see what there "
        "is with `autotune report {}`",
        run.id, run.command_line, run.id));
  return run.answer;
}

int run_report(const Arguments& arguments) {
  const Store store(store_path(arguments), Access::read);
  const RunRecord run = find_run(store, arguments);
  const std::vector<TrialRecord> trials = store.trials(run.id);
  if (const auto path = arguments.text("--html")) {
    write_page(*path, render_html(run, trials));
    return 0;
  }
  const std::string format =
      arguments.flag("--json") ? "json" : arguments.text("--format").value_or("text");
  const auto answer = [&] {
    return engine::parse_json(whole_answer(run),
                              fmt::format("the stored answer of run {}", run.id));
  };
  if (format == "markdown")
    print_result(render_markdown(run, trials));
  else if (format == "csv")
    print_result(render_csv(answer()));
  else if (format == "json")
    print_result(json_text(answer()) + "\n");
  else
    print_result(render_text(run, trials, report_style(arguments)));
  return 0;
}

}  // namespace

Command report_command() {
  return {
      .words = "report",
      .summary = "Show the answer of a stored run again",
      .description =
          "Without an ID the last run with an answer. `autotune runs` lists them. A page of --html "
          "is one file that needs no network.",
      .examples = {{"report", "The last run"},
                   {"report 17 --json", "Run 17 as JSON"},
                   {"report 17 --format markdown", "To paste into a page"},
                   {"report --html out.html", "A page to look at, to print and to send"},
                   {"report --format csv > plans.csv", "Best, runners-up and baseline as rows"}},
      .options = {{.name = "--format",
                   .kind = ValueKind::text,
                   .help = "Form of the report",
                   .default_text = "text",
                   .choices = {"text", "json", "markdown", "csv"}},
                  html_option(),
                  json_option(),
                  database_option()},
      .positionals = {run_argument(ValueKind::integer,
                                   "The number of a run; the newest one without it", false)},
      .run = run_report};
}

}  // namespace tuner
