// autotune validate train: predictions beside published measurements.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/validate_text.h"
#include "tuner/model/data_files.h"
#include "tuner/validate/validation.h"

namespace tuner {
namespace {

constexpr auto kOwnTable = "tests/data/published_train.csv";

// What the fit of the constants records of rows that it had not seen.
std::string left_out_table() {
  const DataFile file = find_data_file("profiles", "rates", "rates file");
  const nlohmann::json fit =
      engine::parse_json(file.text, file.origin).value("fit", nlohmann::json());
  if (!fit.contains("shapes_left_out_by_stack")) return {};
  constexpr const char* kKinds[] = {"in_sample", "shapes_left_out", "source_left_out",
                                    "source_left_out_but_three_rows"};
  const auto errors_of = [&](const nlohmann::json& errors) {
    std::vector<std::string> cells;
    for (const char* kind : kKinds)
      cells.push_back(errors.contains(kind) ? percent(errors[kind].at("mape").get<double>()) : "");
    return cells;
  };
  std::vector<std::vector<std::string>> rows, stacks;
  const auto add = [&](const std::string& count, const nlohmann::json& errors,
                       const std::string& name) {
    std::vector<std::string> cells = errors_of(errors);
    cells.insert(cells.begin(), count);
    cells.push_back(name);
    rows.push_back(std::move(cells));
  };
  for (const auto& [source, errors] : fit.at("by_source").items())
    add(std::to_string(errors.at("rows").get<int>()), errors, source);
  add(std::to_string(fit.at("rows").get<int>()), fit.at("sources_weighted_alike"),
      "all, sources weighted alike");
  for (const auto& [stack, one] : fit.at("shapes_left_out_by_stack").items())
    stacks.push_back({std::to_string(one.at("rows").get<int>()),
                      percent(one.at("coverage_90").get<double>()), stack});
  return format_table({"ROWS", "FITTED %", "NEW SHAPE %", "NEW SOURCE %", "+ 3 ROWS %", "SOURCE"},
                      rows, output_width()) +
         fmt::format(
             "Mean errors when the rows are in the fit, when their model shape is left out of "
             "it, when their\nwhole source is left out and its software counts as unknown, and "
             "when three of its rows have\ncorrected that.\nThe fit ({}): {}\n\n",
             file.origin, fit.at("command").get<std::string>()) +
         format_table({"ROWS", "IN 90 %", "STACK, MODEL SHAPES LEFT OUT OF FIT AND INTERVAL"},
                      stacks, output_width()) +
         "\n";
}

std::string quantity(const PublishedRow& row, double value) {
  if (row.metric == Metric::fits) return value > 0 ? "fits" : "out of memory";
  return row.metric == Metric::step_seconds ? engine::format_seconds(value)
                                            : engine::format_bytes(value);
}

std::string row_table(const Validation& v) {
  std::vector<std::vector<std::string>> rows;
  for (const PredictedRow& row : v.predicted)
    rows.push_back({quantity(*row.row, row.row->measured), quantity(*row.row, row.predicted),
                    signed_percent(row.error()), row.row->id});
  return format_table({"PUBLISHED", "PREDICTED", "ERROR %", "ROW"}, rows, output_width()) + "\n";
}

std::string ranking_table(const Validation& v) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const RankingSummary& r, const std::string& name) {
    rows.push_back({std::to_string(r.groups), fmt::format("{:.2f}", r.mean_spearman),
                    percent(r.mean_regret),
                    r.larger_groups > 0 ? percent(r.mean_finalist_regret) : "", name});
  };
  for (const auto& [source, ranking] : rank_groups_by_source(v.predicted)) add(ranking, source);
  if (rows.empty()) return {};
  add(rank_groups(v.predicted), "all");
  return "\n" +
         format_table({"GROUPS", "RANK CORR.", "REGRET %", "OF 3 %", "ORDER OF PLANS, SOURCE"},
                      rows, output_width()) +
         fmt::format(
             "Groups of plans of one model and cluster whose slowest takes {} times the fastest or "
             "more: mean rank\ncorrelation, and what the plan predicted fastest, or the best of "
             "three "
             "(in groups of more), loses.\n\n",
             kClearSpread);
}

std::string text_of(const Validation& v, bool every_row) {
  std::vector<const PredictedRow*> all;
  for (const PredictedRow& row : v.predicted) all.push_back(&row);
  std::string text;
  if (every_row) text += row_table(v);
  const auto table = [&](const char* title, auto key) {
    return summary_table(
        title, summaries_by(v.predicted, [&](const PredictedRow& row) { return key(*row.row); }));
  };
  text += table("SOURCE", [](const PublishedRow& row) { return row.source; });
  text += table("GPU", [](const PublishedRow& row) { return row.gpu; });
  text += table("STACK", [](const PublishedRow& row) { return row.stack; });
  text += table("METRIC", [](const PublishedRow& row) { return name_of(row.metric); });
  const ErrorSummary s = summarize(all);
  text += fmt::format(
      "All {} rows: mean error {} %, median {} %, bias {} %; {} % lie in the 90 % "
      "interval.\n",
      s.n, percent(s.mape), percent(s.median), signed_percent(s.bias), percent(s.coverage_90));
  return text + ranking_table(v) + fits_line(summarize_fits(v.predicted)) +
         skipped_lines(v.read.skipped);
}

int run_validate(const Arguments& arguments) {
  PublishedRows rows = read_published(published_table(arguments, kOwnTable), RatesTable::load());
  keep_asked_sources(arguments, rows.rows);
  const Validation validation = validate(std::move(rows));
  if (arguments.flag("--json"))
    print_result(json_text(validation_to_json(validation)) + "\n");
  else
    print_result((arguments.text("FILE") ? "" : left_out_table()) +
                 text_of(validation, arguments.flag("--rows")));
  return static_cast<int>(validation.predicted.empty() ? engine::ExitCode::nothing_fits
                                                       : engine::ExitCode::found);
}

}  // namespace

Command validate_train_command() {
  return {
      .words = "validate train",
      .summary = "Hold the predictions against published training runs",
      .description =
          "FILE is a CSV table of runs (id, source, gpu_key, stack_key, shape of the model, plan, "
          "step_time_s or max_allocated_gib). Without FILE the program's own table of published "
          "runs is used, on which its constants were fitted; the errors on rows left out of the "
          "fit stand in profiles/rates.json. Errors are predicted / measured − 1.",
      .examples = {{"validate train", "On the program's own table"},
                   {"validate train runs.csv --json", "On rows of your own"},
                   {"validate train --source korthikanti --rows",
                    "22B to 1T, full recomputation against SP + selective, one by one"}},
      .options = validate_options(),
      .positionals = {{.name = "FILE",
                       .kind = ValueKind::text,
                       .help = "A CSV table of training runs"}},
      .run = run_validate};
}

}  // namespace tuner
