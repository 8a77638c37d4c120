// autotune runs: lists, shows and deletes what is stored.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/report/table.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

using OrderedJson = nlohmann::ordered_json;

Store open_store(const Arguments& arguments, Access access) {
  return Store(store_path(arguments), access);
}

bool is_date(const std::string& text) {
  int year = 0;
  int month = 0;
  int day = 0;
  int read = 0;
  return std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &read) == 3 &&
         read == 10 && text.size() == 10 &&
         std::chrono::year_month_day(std::chrono::year(year),
                                     std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
             .ok();
}

std::string wrong_since(const std::string& text) {
  if (is_date(text)) return {};
  try {
    return engine::parse_seconds(text, "--since") >= 0 ? "" : "lies in the future";
  } catch (const engine::InputError&) {
    return "is neither a duration like 7d nor a date like 2030-01-31";
  }
}

// The moment in the store's notation.
std::string since_moment(const std::string& text) {
  if (is_date(text)) return text;
  const double back = std::min(engine::parse_seconds(text, "--since"), 3e9);
  const std::time_t moment = std::time(nullptr) - static_cast<std::time_t>(back);
  std::tm parts{};
  gmtime_r(&moment, &parts);
  char written[32];
  std::strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return written;
}

OrderedJson summary_json(const RunSummary& run) {
  return {{"id", run.id},
          {"created_at", run.created_at},
          {"kind", run.kind},
          {"model", run.model},
          {"gpu", run.gpu},
          {"gpus", run.gpus},
          {"status", run.status},
          {"title", run.title},
          {"command_line", run.command_line},
          {"tool_version", run.tool_version}};
}

std::string runs_table(const std::vector<RunSummary>& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const RunSummary& run : runs)
    rows.push_back({std::to_string(run.id), run.created_at.substr(0, 16), run.kind, run.model,
                    fmt::format("{} × {}", engine::format_grouped(run.gpus), run.gpu), run.status,
                    run.title});
  return format_table({"ID", "UTC", "KIND", "MODEL", "GPUS", "STATUS", "ANSWER"}, rows,
                      output_width());
}

int run_list(const Arguments& arguments) {
  const Store store = open_store(arguments, Access::read);
  const RunFilter filter = {
      .model = arguments.text("--model").value_or(""),
      .gpu = arguments.text("--gpu").value_or(""),
      .since = arguments.has("--since") ? since_moment(*arguments.text("--since")) : "",
      .limit = arguments.integer("--limit").value_or(0)};
  const auto runs = store.runs(filter);
  if (arguments.flag("--json")) {
    OrderedJson list = OrderedJson::array();
    for (const RunSummary& run : runs) list.push_back(summary_json(run));
    print_result(json_text(OrderedJson{{"schema", "autotune.runs/1"}, {"runs", list}}) + "\n");
  } else if (runs.empty()) {
    print_message("no run is stored that fits; `autotune train --help` shows how to start one\n");
  } else {
    print_result(runs_table(runs));
  }
  return 0;
}

// What an answer says of the plans of a trial.
std::map<int64_t, nlohmann::json> measured_plans(const RunRecord& run) {
  std::map<int64_t, nlohmann::json> plans;
  const nlohmann::json answer = nlohmann::json::parse(run.answer, nullptr, false);
  if (!answer.is_object() || !answer.contains("measurement")) return plans;
  const nlohmann::json& measurement = answer["measurement"];
  // Serving answers count their plans.
  if (!measurement.is_object() || !measurement.contains("plans")) return plans;
  if (!measurement["plans"].is_array()) return plans;
  for (const nlohmann::json& plan : measurement["plans"])
    for (const nlohmann::json& trial : plan.value("trials", nlohmann::json::array()))
      plans[trial.get<int64_t>()] = plan;
  return plans;
}

// The plan of a job, in words; empty when it cannot be read.
std::string plan_of_job(const std::string& text) {
  const nlohmann::json job = nlohmann::json::parse(text, nullptr, false);
  if (!job.is_object() || !job.contains("plan")) return {};
  const engine::ParallelPlan plan = engine::plan_from_json(job["plan"], "the stored job");
  if (!job.contains("serving") || !job["serving"].is_object()) return engine::describe(plan);
  return fmt::format("TP {}  PP {}  replicas {}  batch {}", plan.tp, plan.pp, plan.dp,
                     job["serving"].value("batch", int64_t{0}));
}

std::string known_seconds(const nlohmann::json& from, const char* key) {
  const double seconds = from.is_object() ? from.value(key, 0.0) : 0.0;
  return seconds > 0 ? engine::format_seconds(seconds) : "-";
}

// Trials of the run, and those of earlier runs that it recalled.
std::string trials_table(const Store& store, const RunRecord& run) {
  const std::map<int64_t, nlohmann::json> plans = measured_plans(run);
  std::map<int64_t, TrialRecord> trials;
  for (const TrialRecord& trial : store.trials(run.id)) trials[trial.id] = trial;
  for (const auto& [id, plan] : plans)
    if (!trials.contains(id))
      if (auto trial = store.trial(id)) trials[id] = std::move(*trial);
  if (trials.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [id, trial] : trials) {
    const nlohmann::json outcome = nlohmann::json::parse(trial.outcome, nullptr, false);
    const double peak = outcome.is_object() && outcome.contains("memory")
                            ? outcome["memory"].value("peak_bytes", 0.0)
                            : 0.0;
    const auto plan = plans.find(id);
    rows.push_back(
        {std::to_string(id),
         plan != plans.end() ? known_seconds(plan->second, "predicted_seconds") : "-",
         known_seconds(outcome, "step_seconds"), peak > 0 ? engine::format_bytes(peak) : "-",
         trial.status.empty() ? "unfinished" : trial.status, plan_of_job(trial.job), trial.reason});
  }
  return "\n" +
         format_table({"TRIAL", "PREDICTED", "MEASURED", "MEMORY", "STATUS", "PLAN", "REASON"},
                      rows, output_width() + 60);
}

OrderedJson trials_json(const Store& store, const RunRecord& run) {
  OrderedJson list = OrderedJson::array();
  for (const TrialRecord& trial : store.trials(run.id))
    list.push_back({{"id", trial.id}, {"status", trial.status}, {"reason", trial.reason}});
  return list;
}

int run_show(const Arguments& arguments) {
  const Store store = open_store(arguments, Access::read);
  const RunRecord run = store.run(*arguments.integer("ID"));
  if (arguments.flag("--json")) {
    OrderedJson answer = {{"schema", "autotune.run/1"}};
    answer.update(summary_json(run));
    answer["trials"] = trials_json(store, run);
    answer["answer"] = run.answer.empty() ? OrderedJson() : OrderedJson::parse(run.answer);
    print_result(json_text(answer) + "\n");
    return 0;
  }
  print_result(fmt::format("run {} of {} UTC, by autotune {}\n  command  {}\n  model    {}\n  "
                           "cluster  {} × {}\n  status   {}\n  answer   {}\n",
                           run.id, run.created_at, run.tool_version, harmless(run.command_line),
                           harmless(run.model), engine::format_grouped(run.gpus), harmless(run.gpu),
                           run.status, harmless(run.title)) +
               trials_table(store, run));
  return 0;
}

int run_delete(const Arguments& arguments) {
  const auto& given = arguments.integers("ID");
  const std::set<int64_t> ids(given.begin(), given.end());
  if (!arguments.flag("--yes")) {
    if (!can_ask()) throw engine::InputError("deleting needs --yes where nobody can be asked");
    if (!ask_yes(fmt::format("Delete {} stored run{}?", ids.size(), ids.size() == 1 ? "" : "s"))) {
      print_message("nothing was deleted\n");
      return 0;
    }
  }
  Store store = open_store(arguments, Access::write);
  store.delete_runs({ids.begin(), ids.end()});
  print_message(fmt::format("deleted {} run{}\n", ids.size(), ids.size() == 1 ? "" : "s"));
  return 0;
}

}  // namespace

std::vector<Command> runs_commands() {
  const Option model = {.name = "--model",
                        .kind = ValueKind::text,
                        .placeholder = "NAME",
                        .help = "Only runs whose model contains NAME"};
  const Option gpu = {.name = "--gpu",
                      .kind = ValueKind::text,
                      .placeholder = "NAME",
                      .help = "Only runs whose GPU contains NAME"};
  const Option since = {
      .name = "--since",
      .kind = ValueKind::text,
      .placeholder = "WHEN",
      .help = "Only runs since a date (2030-01-31, UTC) or of the last 7d, 12h, 30m",
      .check = wrong_since};
  const Option limit = {.name = "--limit",
                        .kind = ValueKind::integer,
                        .placeholder = "N",
                        .help = "Only the newest N runs",
                        .low = 1,
                        .high = 1e9};
  return {{.words = "runs",
           .summary = "List the stored runs, the newest first",
           .examples = {{"runs", "All runs"},
                        {"runs --model 175b --since 7d", "Those of a model, of the last week"},
                        {"runs --limit 5 --json", "The newest five as JSON"}},
           .options = {model, gpu, since, limit, json_option(), database_option()},
           .run = run_list},
          {.words = "runs show",
           .summary = "Show one stored run; with --json its whole answer",
           .examples = {{"runs show 17", "What was asked and what came out"},
                        {"runs show 17 --json", "With the whole answer"}},
           .options = {json_option(), database_option()},
           .positionals = {run_argument(ValueKind::integer, "The number of a run", true)},
           .run = run_show},
          {.words = "runs delete",
           .summary = "Delete stored runs; what was measured in them stays for later runs",
           .examples = {{"runs delete 17 18", "Two runs, after a question"},
                        {"runs delete 3..9 --yes", "Seven runs, without one"}},
           .options = {{.name = "--yes", .help = "Do not ask", .letter = 'y'}, database_option()},
           .positionals = {run_argument(ValueKind::integers, "The numbers of the runs", true)},
           .run = run_delete}};
}

}  // namespace tuner
