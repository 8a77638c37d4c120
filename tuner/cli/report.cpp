// autotune report: shows a stored answer again.
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

RunRecord find_run(const Arguments& arguments) {
  const Store store(store_path(arguments), Access::read);
  if (const auto id = arguments.integer("ID")) return store.run(*id);
  if (auto last = store.last_run()) return std::move(*last);
  throw engine::InputError(
      "there is no run to report yet; `autotune train --model 175b --gpus 1024` makes one");
}

int run_report(const Arguments& arguments) {
  const RunRecord run = find_run(arguments);
  if (run.answer.empty())
    throw engine::InputError(
        "run " + std::to_string(run.id) +
        " was not finished and has no answer; run its command again: " + run.command_line);
  const nlohmann::json answer =
      engine::parse_json(run.answer, "the stored answer of run " + std::to_string(run.id));
  const std::string format = arguments.text("--format").value_or("text");
  if (format == "markdown")
    print_result(render_markdown(answer));
  else if (format == "csv")
    print_result(render_csv(answer));
  else if (format == "json")
    print_result(json_text(answer) + "\n");
  else
    print_answer(answer, arguments);
  return 0;
}

}  // namespace

Command report_command() {
  return {
      .words = "report",
      .summary = "Show the answer of a stored run again",
      .description = "Without an ID the last run. `autotune runs` lists them.",
      .examples = {{"report", "The last run"},
                   {"report 17 --json", "Run 17 as JSON"},
                   {"report 17 --format markdown", "To paste into a page"},
                   {"report --format csv > plans.csv", "Best, runners-up and baseline as rows"}},
      .options = {{.name = "--format",
                   .kind = ValueKind::text,
                   .help = "Form of the report",
                   .default_text = "text",
                   .choices = {"text", "json", "markdown", "csv"}},
                  json_option(),
                  database_option()},
      .positionals = {run_argument(ValueKind::integer,
                                   "The number of a run; the newest one without it", false)},
      .run = run_report};
}

}  // namespace tuner
