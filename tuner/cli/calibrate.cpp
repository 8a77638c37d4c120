// autotune calibrate: fits the constants of the cost model to published runs, or measures this
// machine.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/cli/calibrate_host.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/trial_device.h"
#include "tuner/cli/validate_text.h"
#include "tuner/model/data_files.h"
#include "tuner/validate/fit.h"
#include "tuner/validate/serve_fit.h"

namespace tuner {
namespace {

std::string errors_line(const std::string& name, const std::vector<PredictedRow>& rows) {
  const ErrorSummary s = summarize_sources_alike(rows);
  return fmt::format("  {:<34} mean {:>5.1f} %   median {:>5.1f} %\n", name, 100 * s.mape,
                     100 * s.median);
}

// Written beside, then renamed: the file is the old one or the new one, never a part.
void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const std::filesystem::path part = path.string() + ".part";
  std::ofstream file(part, std::ios::binary);
  file << text;
  file.close();
  if (file) std::filesystem::rename(part, path, error);
  if (!file || error) {
    std::filesystem::remove(part, error);
    throw engine::Error(
        engine::ExitCode::storage,
        fmt::format("{}: cannot be written; check its folder and the space left", path.string()));
  }
}

// One constant a line, so that changes can be read.
std::string document(const nlohmann::json& json) {
  std::string text = "{\n";
  for (const auto& [key, value] : json.items()) {
    if (key == "constants" || key == "fit") continue;
    text += fmt::format("  \"{}\": {},\n", key, value.dump());
  }
  text += "  \"constants\": {\n";
  std::string lines;
  for (const auto& [key, value] : json.at("constants").items())
    lines += fmt::format("{}    \"{}\": {}", lines.empty() ? "" : ",\n", key, value.dump());
  return text + lines + "\n  },\n  \"fit\": " + json.at("fit").dump(2) + "\n}\n";
}

std::string output_path(const Arguments& arguments, const char* name) {
  return arguments.text("--output")
      .value_or((std::filesystem::path(user_data_folder()) / "profiles" / name).string());
}

void tell_progress(int done, int total) {
  print_message(fmt::format("fit {} of {}\n", done, total));
}

void need_enough(size_t count, const std::string& what, const std::vector<SkippedRow>& skipped) {
  constexpr size_t kFewest = 3;
  if (count >= kFewest) return;
  throw engine::InputError(fmt::format("{}: {} rows can be predicted; a fit needs at least {}\n{}",
                                       what, count, kFewest, skipped_lines(skipped)));
}

// Where a fit begins, and what its priors are.
template <class Table>
Table first_table(const Arguments& arguments) {
  Table table = Table::load();
  if (arguments.flag("--afresh"))
    table.reset_to_priors();
  else
    table.take_values_as_priors();
  return table;
}

std::string command_of(const Arguments& arguments, const CsvTable& csv) {
  return fmt::format("autotune calibrate{} --from {}",
                     arguments.flag("--afresh") ? " --afresh" : "", csv.source());
}

std::string kind_lines(const std::string& title, const std::vector<PredictedServe>& rows) {
  std::string text = title + "\n";
  for (const auto& [kind, s] : summarize_by_kind(rows))
    text += fmt::format("  {:<40} {:>5} rows   mean {:>5.1f} %   median {:>5.1f} %\n", kind, s.n,
                        100 * s.mape, 100 * s.median);
  return text;
}

int calibrate_serving(const Arguments& arguments, const CsvTable& csv) {
  const auto start = first_table<ServeRatesTable>(arguments);
  const ServeRows published = read_serving_runs(csv, start);
  need_enough(published.rows.size(), csv.source(), published.skipped);
  const ServeFitAccount account = fit_and_validate_serving(start, published.rows, tell_progress);
  const std::string output = output_path(arguments, "serve_rates.json");
  const nlohmann::json fit = serve_fit_to_json(account, command_of(arguments, csv));
  write_file(output, document(account.table.to_json(fit)));
  print_result(fmt::format("Fitted {} rows of serving.\n", published.rows.size()) +
               kind_lines("On the rows of the fit:", account.in_sample) +
               kind_lines("On groups of source, model and GPU left out:", account.cross.by_group) +
               (account.cross.by_plan.empty()
                    ? ""
                    : kind_lines("On plans of mixtures left out:", account.cross.by_plan)) +
               kind_lines("On sources left out:", account.cross.by_source) +
               fmt::format("Written to {}\n", output));
  return 0;
}

int run_calibrate(const Arguments& arguments) {
  if (!arguments.has("--from")) return calibrate_host(arguments);
  const std::string from = arguments.text("--from").value();
  const CsvTable csv = CsvTable::parse(engine::read_text_file(from), from);
  if (holds_serving_runs(csv)) return calibrate_serving(arguments, csv);
  const auto start = first_table<RatesTable>(arguments);
  PublishedRows published = read_published(csv, start);
  std::erase_if(published.rows,
                [](const PublishedRow& row) { return row.metric != Metric::step_seconds; });
  need_enough(published.rows.size(), from + " (step_time_s)", published.skipped);
  const FitAccount account = fit_and_validate(start, published.rows, tell_progress);
  const std::string output = output_path(arguments, "rates.json");
  const nlohmann::json fit = fit_to_json(account, command_of(arguments, csv));
  write_file(output, document(account.table.to_json(fit)));
  print_result(
      fmt::format("Fitted {} rows; errors with every source weighted alike:\n",
                  account.in_sample.size()) +
      errors_line("on the rows of the fit", account.in_sample) +
      errors_line("on model shapes left out", predictions_of(account.cross.by_shape)) +
      errors_line("on sources left out, stack unknown", predictions_of(account.cross.by_source)) +
      errors_line("on these after three of their rows", predictions_of(account.cross.calibrated)) +
      fmt::format("Written to {}\n", output));
  return 0;
}

}  // namespace

Command calibrate_command() {
  return {
      .words = "calibrate",
      .summary = "Measure this machine, or fit the models to published or own runs",
      .description =
          "Without --from: trains and serves small models on this machine for about half a minute "
          "(with --device cuda trains larger ones on its GPUs), fits the rates of a core or GPU, "
          "of memory and of messages to what was measured, and writes the profile that `train` and "
          "`infer` take with the same --device from then on. With --from: fits the constants in "
          "use to a table of runs, so that a few rows of your own machines correct them, or with "
          "--afresh the priors behind them. It writes profiles/rates.json (of serving runs "
          "profiles/serve_rates.json) with the fitted values, the rows and the errors on rows left "
          "out (whole model shapes, whole sources). The same rows give the same digits. A file in "
          "your own data folder is used instead of the built-in one from then on.",
      .examples =
          {{"calibrate", "Measure this machine"},
           {"calibrate --device cuda", "Measure its GPUs"},
           {"calibrate --from runs.csv", "Fit to your own runs"},
           {"calibrate --afresh --from tests/data/published_train.csv --output profiles/rates.json",
            "Repeat the fit of the built-in constants"}},
      .options = {{.name = "--from",
                   .kind = ValueKind::text,
                   .placeholder = "FILE",
                   .help = "A CSV table of runs, as for validate train or validate infer",
                   .default_text = "this machine is measured"},
                  {.name = "--afresh",
                   .kind = ValueKind::flag,
                   .help = "Forget earlier fits: start from physics and microbenchmarks"},
                  device_option("What of this machine is measured", "cpu"),
                  {.name = "--output",
                   .kind = ValueKind::text,
                   .placeholder = "FILE",
                   .help = "Where to write the constants",
                   .default_text = "your data folder"},
                  database_option()},
      .run = run_calibrate};
}

}  // namespace tuner
