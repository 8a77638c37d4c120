// autotune validate infer: serving predictions beside published measurements.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/published_tables.h"
#include "tuner/validate/serve_validation.h"

namespace tuner {
namespace {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

std::vector<std::string> summary_row(const std::string& name, const ErrorSummary& s) {
  return {std::to_string(s.n),    percent(s.mape),        percent(s.median),
          signed_percent(s.bias), percent(s.coverage_90), name};
}

using Summaries = std::map<std::string, ErrorSummary>;

std::string summary_table(const std::string& title, const Summaries& summaries) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, summary] : summaries)
    if (summary.n > 0) rows.push_back(summary_row(name, summary));
  return format_table({"FIGURES", "MEAN %", "MEDIAN %", "BIAS %", "IN 90 %", title}, rows,
                      output_width()) +
         "\n";
}

template <class Key>
Summaries summaries_by(const ServeValidation& v, Key key) {
  std::map<std::string, std::vector<const PredictedServe*>> groups;
  for (const PredictedServe& row : v.predicted) groups[key(*row.row)].push_back(&row);
  Summaries summaries;
  for (const auto& [name, members] : groups) summaries[name] = summarize_serving(members);
  return summaries;
}

std::string quantity(const PredictedServe& row, double value) {
  if (row.metric == ServeMetric::fits) return value > 0 ? "fits" : "out of memory";
  if (row.metric == ServeMetric::tokens_per_second_per_gpu)
    return fmt::format("{:.4g} tokens/s per GPU", value);
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

std::string fits_line(const FitSummary& fits) {
  std::string text = fmt::format("Memory: {} of {} runs that worked are called impossible",
                                 fits.worked_called_impossible, fits.worked);
  if (fits.out_of_memory > 0)
    text += fmt::format("; {} of {} that ran out of memory are caught", fits.out_of_memory_caught,
                        fits.out_of_memory);
  return text + ".\n";
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
  text += summary_table("SOURCE", summaries_by(v, [](const ServeRow& row) { return row.source; }));
  text += summary_table("GPU", summaries_by(v, [](const ServeRow& row) { return row.gpu; }));
  text += summary_table("STACK", summaries_by(v, [](const ServeRow& row) {
                          return row.scenario.stack.release_scope();
                        }));
  text += summary_table("METRIC, ARRIVAL", summarize_by_kind(v.predicted));
  text += fits_line(summarize_fits(v.predicted)) + ranking_line(rank_serving(v.predicted));
  std::map<std::string, int> reasons;
  for (const SkippedRow& row : v.read.skipped) ++reasons[row.reason];
  for (const auto& [reason, count] : reasons)
    text += fmt::format("{} {} not predicted: {}\n", count, count == 1 ? "row" : "rows", reason);
  return text;
}

int run_validate(const Arguments& arguments) {
  const ServeRows rows = read_serving_runs(
      published_table(arguments, "tests/data/published_infer.csv"), ServeRatesTable::load());
  ServeRows chosen = rows;
  const std::string part = arguments.text("--source").value_or("");
  std::erase_if(chosen.rows,
                [&](const ServeRow& row) { return !contains_ignoring_case(row.source, part); });
  if (!part.empty() && chosen.rows.empty())
    throw engine::InputError(
        fmt::format("no row that can be predicted has '{}' in its source", part));
  const ServeValidation validation = validate_serving(std::move(chosen));
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
      .options = {{.name = "--source",
                   .kind = ValueKind::text,
                   .placeholder = "TEXT",
                   .help = "Only rows whose source contains this"},
                  {.name = "--rows", .kind = ValueKind::flag, .help = "Print every row"},
                  json_option()},
      .positionals = {{.name = "FILE",
                       .kind = ValueKind::text,
                       .help = "A CSV table of serving runs"}},
      .run = run_validate};
}

}  // namespace tuner
