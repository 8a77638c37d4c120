// autotune validate infer: serving predictions beside published measurements.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/validate_text.h"
#include "tuner/validate/serve_validation.h"

namespace tuner {
namespace {

std::string quantity(const PredictedServe& row, double value) {
  if (row.metric == ServeMetric::fits) return value > 0 ? "fits" : "out of memory";
  if (row.metric == ServeMetric::tokens_per_second_per_gpu)
    return fmt::format("{:.0f} tokens/s per GPU", value);
  return engine::format_seconds(value);
}

std::string row_table(const ServeValidation& v) {
  std::vector<std::vector<std::string>> rows;
  for (const PredictedServe& row : v.predicted)
    rows.push_back({quantity(row, row.measured), quantity(row, row.predicted),
                    signed_percent(row.error()), std::string(name_of(row.metric)), row.row->id});
  return format_table({"PUBLISHED", "PREDICTED", "ERROR %", "METRIC", "ROW"}, rows,
                      output_width()) +
         "\n";
}

std::string ranking_line(const ServeRanking& r) {
  if (r.groups == 0) return {};
  return fmt::format(
      "Picks within the median latency of {} groups of one model, machine and lengths: rank "
      "correlation {:.2f}, regret {} % mean, {} % median.\n",
      r.groups, r.mean_spearman, percent(r.mean_regret), percent(r.median_regret));
}

std::string text_of(const ServeValidation& v, bool every_row) {
  std::string text;
  if (every_row) text += row_table(v);
  const auto table = [&](const char* title, auto key) {
    return summary_table(
        title, summaries_by(v.predicted, [&](const PredictedServe& row) { return key(*row.row); }));
  };
  text += table("SOURCE", [](const ServeRow& row) { return row.source; });
  text += table("GPU", [](const ServeRow& row) { return row.gpu; });
  text += table("STACK", [](const ServeRow& row) { return row.scenario.stack.release_scope(); });
  text += summary_table("METRIC, ARRIVAL", summarize_by_kind(v.predicted));
  return text + fits_line(summarize_fits(v.predicted)) + ranking_line(rank_serving(v.predicted)) +
         skipped_lines(v.read.skipped);
}

int run_validate(const Arguments& arguments) {
  ServeRows rows = read_serving_runs(published_table(arguments, "tests/data/published_infer.csv"),
                                     ServeRatesTable::load());
  keep_asked_sources(arguments, rows.rows);
  const ServeValidation validation = validate_serving(std::move(rows));
  if (arguments.flag("--json"))
    print_result(serve_validation_to_json(validation).dump(2) + "\n");
  else
    print_result(text_of(validation, arguments.flag("--rows")));
  return static_cast<int>(validation.predicted.empty() ? engine::ExitCode::nothing_fits
                                                       : engine::ExitCode::found);
}

}  // namespace

Command validate_infer_command() {
  return {
      .words = "validate infer",
      .summary = "Hold the predictions against published serving runs",
      .description =
          "FILE is a CSV table of runs (id, source, gpu_key, stack_key, framework_version, shape "
          "of "
          "the model, plan, batch, lengths, batching, and what was measured). Without FILE the "
          "program's own table of published runs is used; the errors on rows left out of the fit "
          "stand in profiles/serve_rates.json. Errors are predicted / measured − 1.",
      .examples = {{"validate infer", "On the program's own table"},
                   {"validate infer runs.csv --json", "On rows of your own"},
                   {"validate infer --source FasterTransformer --rows", "One source, row by row"}},
      .options = validate_options(),
      .positionals = {{.name = "FILE",
                       .kind = ValueKind::text,
                       .help = "A CSV table of serving runs"}},
      .run = run_validate};
}

}  // namespace tuner
