// autotune validate train: predictions beside published measurements.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/published_tables.h"
#include "tuner/model/data_files.h"
#include "tuner/validate/validation.h"

namespace tuner {
namespace {

constexpr auto kOwnTable = "tests/data/published_train.csv";

// Rows of the sources that are asked for.
PublishedRows chosen_rows(const Arguments& arguments, PublishedRows all) {
  const std::string part = arguments.text("--source").value_or("");
  std::erase_if(all.rows,
                [&](const PublishedRow& row) { return !contains_ignoring_case(row.source, part); });
  if (!part.empty() && all.rows.empty())
    throw engine::InputError(
        fmt::format("no row that can be predicted has '{}' in its source", part));
  return all;
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

std::vector<std::string> summary_row(const std::string& name, const ErrorSummary& s) {
  return {std::to_string(s.n),    percent(s.mape),        percent(s.median),
          signed_percent(s.bias), percent(s.coverage_90), name};
}

template <class Key>
std::string summary_table(const Validation& v, const std::string& title, Key key) {
  std::map<std::string, std::vector<const PredictedRow*>> groups;
  for (const PredictedRow& row : v.predicted) groups[std::string(key(*row.row))].push_back(&row);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, members] : groups) rows.push_back(summary_row(name, summarize(members)));
  return format_table({"ROWS", "MEAN %", "MEDIAN %", "BIAS %", "IN 90 %", title}, rows,
                      output_width()) +
         "\n";
}

// What the fit of the constants records of rows that it had not seen.
std::string left_out_table() {
  const DataFile file = find_data_file("profiles", "rates", "rates file");
  const nlohmann::json fit =
      engine::parse_json(file.text, file.origin).value("fit", nlohmann::json());
  if (!fit.contains("by_source")) return {};
  auto mape = [](const nlohmann::json& errors, const char* kind) {
    return percent(errors.at(kind).at("mape").get<double>());
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& [source, errors] : fit.at("by_source").items())
    rows.push_back({std::to_string(errors.at("rows").get<int>()), mape(errors, "in_sample"),
                    mape(errors, "shapes_left_out"), mape(errors, "source_left_out"), source});
  const nlohmann::json& alike = fit.at("sources_weighted_alike");
  return format_table({"ROWS", "FITTED %", "NEW SHAPE %", "NEW SOURCE %", "SOURCE"}, rows,
                      output_width()) +
         fmt::format(
             "Mean errors when the rows are in the fit, when their model shape is left out of "
             "it, and when their\nwhole source is left out and its software counts as "
             "unknown. Sources weighted alike: {}, {} and {} %.\nThe fit ({}): {}\n\n",
             mape(alike, "in_sample"), mape(alike, "shapes_left_out"),
             mape(alike, "source_left_out"), file.origin, fit.at("command").get<std::string>());
}

std::string quantity(const PublishedRow& row, double value) {
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

std::string skipped_table(const Validation& v) {
  std::map<std::string, int> reasons;
  for (const SkippedRow& row : v.read.skipped) ++reasons[row.reason];
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += fmt::format("{} {} not predicted: {}\n", count, count == 1 ? "row" : "rows", reason);
  return text;
}

std::string text_of(const Validation& v, bool every_row) {
  std::vector<const PredictedRow*> all;
  for (const PredictedRow& row : v.predicted) all.push_back(&row);
  std::string text;
  if (every_row) text += row_table(v);
  text += summary_table(v, "SOURCE", [](const PublishedRow& row) { return row.source; });
  text += summary_table(v, "GPU", [](const PublishedRow& row) { return row.gpu; });
  text += summary_table(v, "STACK", [](const PublishedRow& row) { return row.stack; });
  text += summary_table(v, "METRIC", [](const PublishedRow& row) { return name_of(row.metric); });
  const ErrorSummary s = summarize(all);
  text += fmt::format(
      "All {} rows: mean error {} %, median {} %, bias {} %; {} % lie in the 90 % "
      "interval.\n",
      s.n, percent(s.mape), percent(s.median), signed_percent(s.bias), percent(s.coverage_90));
  const RankingSummary r = rank_groups(v.predicted);
  if (r.groups > 0)
    text += fmt::format(
        "Order of plans in {} groups of one model and cluster: mean rank correlation "
        "{:.2f}, mean regret of the pick {} %.\n",
        r.groups, r.mean_spearman, percent(r.mean_regret));
  return text + skipped_table(v);
}

int run_validate(const Arguments& arguments) {
  const Validation validation = validate(chosen_rows(
      arguments, read_published(published_table(arguments, kOwnTable), RatesTable::load())));
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
      .options = {{.name = "--source",
                   .kind = ValueKind::text,
                   .placeholder = "TEXT",
                   .help = "Only rows whose source contains this"},
                  {.name = "--rows", .kind = ValueKind::flag, .help = "Print every row"},
                  json_option()},
      .positionals = {{.name = "FILE",
                       .kind = ValueKind::text,
                       .help = "A CSV table of training runs"}},
      .run = run_validate};
}

}  // namespace tuner
