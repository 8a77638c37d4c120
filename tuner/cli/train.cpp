// autotune train: the fastest plan for a model on a number of GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/measure_options.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/sweep.h"
#include "tuner/search/measure.h"
#include "tuner/search/recommendation.h"

namespace tuner {

using engine::ExitCode;

namespace {

std::string title_of(const Recommendation& r) {
  if (!r.best) return "no plan fits";
  return fmt::format("{}, {} a step", engine::describe(r.best->plan),
                     engine::format_seconds(r.best->step_seconds()));
}

void add_defaults(Recommendation& r, const std::vector<std::string>& defaults) {
  if (!defaults.empty())
    r.assumptions.insert(r.assumptions.begin(),
                         fmt::format("taken by default: {}", fmt::join(defaults, ", ")));
}

int predict_only(const Arguments& arguments, const ScenarioAnswer& asked,
                 const Restrictions& restrictions) {
  Recommendation r = recommend(asked.scenario, restrictions);
  add_defaults(r, asked.defaults);
  r.gpu_hour_price = arguments.number("--gpu-hour-price").value_or(0);
  const nlohmann::json answer = recommendation_to_json(r);
  print_answer(answer, arguments);
  store_answer(answer, arguments, r.scenario.model, r.scenario.cluster, "train", title_of(r),
               r.best ? "found" : "nothing fits");
  return static_cast<int>(r.best ? ExitCode::found : ExitCode::nothing_fits);
}

std::string progress_text(const MeasureProgress& p) {
  std::string text = fmt::format("measuring {} of {}: {}", p.done + 1, p.total, p.now);
  if (p.best_seconds > 0)
    text += fmt::format("; best so far {}", engine::format_seconds(p.best_seconds));
  if (p.failures > 0) text += fmt::format("; {} failed", p.failures);
  return text + fmt::format("; {} of {} spent", engine::format_seconds(p.spent_seconds),
                            engine::format_seconds(p.budget_seconds));
}

// What happened to the trials, for the status of the run and the exit code.
struct Ending {
  ExitCode code = ExitCode::found;
  std::string status = "found";
};

Ending ending_of(const Recommendation& r, int stopped_by) {
  if (!r.best) return {ExitCode::nothing_fits, "nothing fits"};
  if (stopped_by != 0)
    return {stopped_by == SIGINT ? ExitCode::interrupted : ExitCode::terminated, "interrupted"};
  const auto lost = [](const PlanMeasurement& one) {
    const engine::OutcomeStatus status = one.outcome.status;
    return status == engine::OutcomeStatus::crashed || status == engine::OutcomeStatus::timed_out ||
           status == engine::OutcomeStatus::rejected;
  };
  const auto& plans = r.measurement->plans;
  if (std::any_of(plans.begin(), plans.end(), lost)) return {ExitCode::partial, "partly measured"};
  return {};
}

void tell_ending(const Recommendation& r, const Ending& ending) {
  if (ending.status == "interrupted")
    print_message(
        "interrupted; what was measured is stored: the same command goes on from there\n");
  else if (ending.code == ExitCode::partial)
    print_message("some trials failed; `autotune runs show` tells why\n");
  else if (r.measurement && r.measurement->budget_ended)
    print_message("the measuring budget ended; a longer --measure-budget goes on from there\n");
}

int measure_too(const Arguments& arguments, const ScenarioAnswer& asked,
                const Restrictions& restrictions, const MeasureRequest& request,
                const Launcher& launcher, const Host& host) {
  Store store(store_path(arguments));
  const int64_t run = store.add_run(
      unfinished_run(arguments, asked.scenario.model, asked.scenario.cluster, "train"));
  Profiler profiler(store, run, launcher, host);
  const StopSignals signals;
  Recommendation r;
  {
    ProgressLine line;
    const MeasureOptions options = {
        .most_plans = request.most_plans,
        .budget_seconds = request.budget_seconds,
        .stop = &signals.seen(),
        .progress = [&](const MeasureProgress& progress) { line.tell(progress_text(progress)); }};
    r = recommend(asked.scenario, restrictions, [&](auto& plans, auto& baseline) {
      return measure_plans(asked.scenario, profiler, options, plans, baseline);
    });
  }
  add_defaults(r, asked.defaults);
  r.gpu_hour_price = arguments.number("--gpu-hour-price").value_or(0);
  const nlohmann::json answer = recommendation_to_json(r);
  const Ending ending = ending_of(r, signals.seen());
  print_answer(answer, arguments);
  store.finish_run(run, title_of(r), ending.status, json_text(answer, -1));
  tell_ending(r, ending);
  return static_cast<int>(ending.code);
}

// Prints what would be run. Nothing is stored.
int show_trials(const ScenarioAnswer& asked, const Restrictions& restrictions,
                const MeasureRequest& request, const Launcher& launcher) {
  std::string text;
  double seconds = 0;
  const int ranks = asked.scenario.cluster.gpus;
  recommend(asked.scenario, restrictions, [&](auto& plans, auto&) {
    const auto most = std::min(plans.size(), static_cast<size_t>(request.most_plans));
    for (size_t i = 0; i < most; ++i) {
      const double cost = trial_seconds(plans[i].predicted.step_seconds);
      seconds += cost;
      text += fmt::format("trial {}: {}\n  about {}: {}\n", i + 1, engine::describe(plans[i].plan),
                          engine::format_seconds(cost),
                          fmt::join(launcher.command(ranks, "JOB.json"), " "));
    }
    return MeasureAccount{};
  });
  text += fmt::format(
      "at most {} plans are measured; which ones after the first follows from the times measured. "
      "The fastest are measured longer. About {} for the first round ({} rank-seconds), at most {} "
      "in all.\n",
      request.most_plans, engine::format_seconds(seconds), std::lround(seconds * ranks),
      engine::format_seconds(request.budget_seconds));
  print_result(text);
  return 0;
}

// Trials of this machine tell nothing about the speed of another device.
void refuse_foreign_device(const Scenario& scenario) {
  if (scenario.cluster.device.is_cpu() && scenario.stack.name == "autotune") return;
  throw engine::InputError(
      fmt::format("trials on this CPU cannot time {} under {}; leave out --gpu and --stack to make "
                  "this machine "
                  "the cluster, or leave out --measure",
                  scenario.cluster.device.name, scenario.stack.name));
}

int run_train(const Arguments& arguments) {
  if (const auto& counts = arguments.integers("--gpus"); counts.size() > 1)
    return run_sweep(arguments, counts);
  const MeasureRequest request = measure_request_of(arguments);
  std::optional<Launcher> launcher;
  if (request.most_plans > 0) launcher = Launcher::find(request.launcher);
  const Host host = this_host();
  std::optional<HostCluster> cluster;
  if (request.this_host)
    cluster = host_cluster(host, static_cast<int>(*arguments.integer("--gpus")),
                           launcher ? environment_of(host, *launcher).hash : "");
  ScenarioAnswer asked =
      cluster ? scenario_of(arguments, cluster->cluster) : scenario_of(arguments);
  const Restrictions restrictions = restrictions_of(arguments);
  refuse_impossible(asked.scenario, restrictions);
  if (cluster && !cluster->remark.empty()) print_message(cluster->remark + "\n");
  if (!launcher) return predict_only(arguments, asked, restrictions);
  refuse_foreign_device(asked.scenario);
  if (request.dry_run) return show_trials(asked, restrictions, request, *launcher);
  return measure_too(arguments, asked, restrictions, request, *launcher, host);
}

}  // namespace

Command train_command() {
  Command command{
      .words = "train",
      .summary = "Find the fastest plan to train a model on a number of GPUs",
      .description =
          "Predicts every legal plan (tensor, pipeline, data and context parallelism, "
          "interleaving, "
          "sequence parallelism, micro-batch, recomputation, optimizer sharding), drops those that "
          "do not fit, and recommends the fastest, with its reasons and its error band. The "
          "options "
          "of a plan restrict the search and take lists. With --device the plans that could win "
          "are "
          "measured in short trials, each stored, and what was measured decides.",
      .examples = {{"train --model 175b --gpus 1024", "GPT-3 175B on 1,024 A100s"},
                   {"train --model llama-3.1-70b --gpus 64 --gpu h100-80gb", "Llama 70B on H100s"},
                   {"train --model ./config.json --gpus 8 --gpu a100-40gb --json",
                    "A model of your own"},
                   {"train --model gpt3-tiny --gpus 4 --device cpu",
                    "Measure plans of four ranks on this machine"},
                   {"train --model 175b --gpus 256,512,1024 --gpu-hour-price 2",
                    "How it scales, how long it takes, what it costs"},
                   {"train --model 175b --gpus 1024 --tp 4,8 --no-sp --recompute none,full",
                    "Only such plans"}},
      .options = scenario_options(),
      .run = run_train};
  for (Option& option : command.options)
    if (option.name == "--gpus") {
      option.kind = ValueKind::integers;
      option.help = "Number of GPUs; all of them are used. Several (256,512) compare how it scales";
    }
  for (Option& option : restriction_options()) command.options.push_back(std::move(option));
  for (Option& option : measure_options()) command.options.push_back(std::move(option));
  command.options.push_back(price_option());
  command.options.push_back(json_option());
  command.options.push_back(database_option());
  return command;
}

}  // namespace tuner
