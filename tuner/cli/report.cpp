// autotune report: shows a stored answer again.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
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

// Writes the page whole or not at all, so that a reader never sees half of one.
void write_page(const std::string& path, const std::string& page) {
  if (path == "-") return print_result(page);
  const std::string unfinished = path + ".unfinished";
  engine::FileWriter file(unfinished);
  file.append(page.data(), page.size());
  file.close();
  engine::rename_file(unfinished, path);
  print_message(
      fmt::format("{}: {}\n", path, engine::format_bytes(static_cast<double>(page.size()))));
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
      .options =
          {{.name = "--format",
            .kind = ValueKind::text,
            .help = "Form of the report",
            .default_text = "text",
            .choices = {"text", "json", "markdown", "csv"}},
           {.name = "--html",
            .kind = ValueKind::text,
            .placeholder = "FILE",
            .help = "Write a page for a browser, with charts, to this file; - is standard output"},
           json_option(),
           database_option()},
      .positionals = {run_argument(ValueKind::integer,
                                   "The number of a run; the newest one without it", false)},
      .run = run_report};
}

}  // namespace tuner
