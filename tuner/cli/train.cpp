// autotune train: the fastest plan for a model on a number of GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/measure_options.h"
#include "tuner/cli/plan_file.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/cli/single_ranks.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/sweep.h"
#include "tuner/cli/trial_cluster.h"
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

// What the question says beside the scenario: which defaults were taken, and the price.
void fill_in(Recommendation& r, const ScenarioAnswer& asked, const Arguments& arguments) {
  if (!asked.defaults.empty())
    r.assumptions.insert(r.assumptions.begin(),
                         fmt::format("taken by default: {}", fmt::join(asked.defaults, ", ")));
  r.gpu_hour_price = arguments.number("--gpu-hour-price").value_or(0);
}

nlohmann::json answer_of(const Recommendation& r, const std::optional<Imported>& file) {
  nlohmann::json answer = recommendation_to_json(r);
  if (file) add_comparison(answer, r, *file);
  return answer;
}

int predict_only(const Arguments& arguments, const ScenarioAnswer& asked,
                 const Restrictions& restrictions, const std::optional<Imported>& file) {
  Recommendation r = recommend(asked.scenario, restrictions);
  fill_in(r, asked, arguments);
  const nlohmann::json answer = answer_of(r, file);
  print_answer(answer, arguments);
  store_answer(answer, arguments, r.scenario.model, r.scenario.cluster, "train", title_of(r),
               r.best ? "found" : "nothing fits");
  return static_cast<int>(r.best ? ExitCode::found : ExitCode::nothing_fits);
}

Ending ending_of(const Recommendation& r, int stopped_by) {
  if (!r.best) return {ExitCode::nothing_fits, "nothing fits"};
  if (stopped_by != 0) return stopped_ending(stopped_by);
  const auto lost = [](const PlanMeasurement& one) { return is_lost(one.outcome); };
  if (r.measurement && std::ranges::any_of(r.measurement->plans, lost))
    return {ExitCode::partial, "partly measured"};
  return {};
}

// Predicts, and runs single ranks of the best plan.
int confirm_too(const Arguments& arguments, const ScenarioAnswer& asked,
                const Restrictions& restrictions, const MeasureRequest& request,
                const Launcher& launcher, const Host& host, const std::optional<Imported>& file) {
  Recommendation r = recommend(asked.scenario, restrictions);
  fill_in(r, asked, arguments);
  RankQuestion question{
      asked.scenario.model, asked.scenario.cluster, "train", asked.scenario.workload.precision, {}};
  if (r.best)
    question.slice = [&](const SliceRoom& room, std::string& why_not) {
      return slice_of(asked.scenario, r.best->plan, room, why_not);
    };
  return confirm_best(
      arguments, request, launcher, host, question,
      [&](std::optional<Confirmation> confirmation, std::string& title, Ending& ending) {
        r.confirmation = std::move(confirmation);
        if (r.confirmation && r.confirmation->times_count)
          take_measured_compute(r.confirmation->compute_factor, r.best->predicted);
        title = title_of(r);
        ending = ending_of(r, 0);
        return answer_of(r, file);
      });
}

int measure_too(const Arguments& arguments, const ScenarioAnswer& asked,
                const Restrictions& restrictions, const MeasureRequest& request,
                const Launcher& launcher, const Host& host, const std::optional<Imported>& file) {
  Store store(store_path(arguments));
  const int64_t run = store.add_run(
      unfinished_run(arguments, asked.scenario.model, asked.scenario.cluster, "train"));
  Profiler profiler(store, run, launcher, host);
  const StopSignals signals;
  Recommendation r;
  {
    ProgressLine line;
    const MeasureOptions options = measure_options_of(request, signals, line);
    r = recommend(asked.scenario, restrictions, [&](auto& plans, auto& baseline) {
      return measure_plans(asked.scenario, profiler, options, plans, baseline);
    });
  }
  fill_in(r, asked, arguments);
  const nlohmann::json answer = answer_of(r, file);
  const Ending ending = ending_of(r, signals.seen());
  print_answer(answer, arguments);
  store.finish_run(run, title_of(r), ending.status, json_text(answer, -1));
  tell_ending(ending, r.measurement && r.measurement->race.budget_ended);
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
                          fmt::join(launcher.command(ranks, kJobFile), " "));
    }
    return MeasureAccount{};
  });
  const bool is_cpu = asked.scenario.cluster.device.is_cpu();
  const int devices = is_cpu ? std::min(ranks, this_host().cores) : ranks;
  const auto hours = [&](double time) {
    return fmt::format("{:.2g} {}-hours", time * devices / 3600, is_cpu ? "CPU" : "GPU");
  };
  text += fmt::format(
      "at most {} plans are measured; which ones after the first follows from the times measured. "
      "The fastest are measured longer. About {} for the first round ({}), at most {} in all "
      "({}). {}\n",
      request.most_plans, engine::format_seconds(seconds), hours(seconds),
      engine::format_seconds(request.budget_seconds), hours(request.budget_seconds), kJobFileIs);
  print_result(text);
  return 0;
}

int run_train(const Arguments& arguments) {
  if (const auto& counts = arguments.integers("--gpus"); counts.size() > 1)
    return run_sweep(arguments, counts);
  const MeasureRequest request = measure_request_of(arguments);
  std::optional<Launcher> launcher;
  if (request.most_plans > 0) launcher = trial_launcher(arguments, request);
  const Host host = this_host();
  std::optional<HostCluster> cluster;
  if (request.this_host) cluster = trial_cluster(arguments, request, launcher, host);
  std::optional<Imported> file = plan_file_of(arguments, "--compare-with");
  ScenarioBase base;
  if (file) base = base_of(*file, *arguments.integer("--gpus"));
  base.stack.clear();  // the question's own: it may be another software
  if (cluster) base.cluster = cluster->cluster;
  ScenarioAnswer asked = scenario_of(arguments, base);
  const Restrictions restrictions = restrictions_of(arguments);
  refuse_impossible(asked.scenario, restrictions);
  const bool whole =
      launcher && runs_whole_plans(asked.scenario.cluster, asked.scenario.stack.name, request);
  if (cluster &&
      calibrate_stale(arguments, request, launcher, host, TrialKind::training, *cluster)) {
    base.cluster = cluster->cluster;
    asked = scenario_of(arguments, base);
  }
  if (cluster && !cluster->remark.empty()) print_message(cluster->remark + "\n");
  if (!launcher) return predict_only(arguments, asked, restrictions, file);
  if (!whole) return confirm_too(arguments, asked, restrictions, request, *launcher, host, file);
  if (request.dry_run) return show_trials(asked, restrictions, request, *launcher);
  return measure_too(arguments, asked, restrictions, request, *launcher, host, file);
}

}  // namespace

Command train_command() {
  Command command{
      .words = "train",
      .summary = "Find the fastest plan to train a model on a number of GPUs",
      .description =
          "Predicts every legal plan (tensor, pipeline, data and context parallelism, "
          "interleaving, sequence parallelism, micro-batch, recomputation, optimizer sharding), "
          "drops those that do not fit, and recommends the fastest, with its reasons and its error "
          "band. The options of a plan restrict the search and take lists. With --device the plans "
          "that could win are measured in short trials, each stored, and what was measured "
          "decides; of a cluster that is not here, --measure auto runs single ranks of the best "
          "plan and confirms what is counted.",
      .examples = {{"train --model 175b --gpus 1024", "GPT-3 175B on 1,024 A100s"},
                   {"train --model llama-3.1-70b --gpus 64 --gpu h100-80gb", "Llama 70B on H100s"},
                   {"train --model ./config.json --gpus 8 --gpu a100-40gb --json",
                    "A model of your own"},
                   {"train --model gpt3-tiny --gpus 4 --device cpu",
                    "Measure plans of four ranks on this machine"},
                   {"train --model 175b --gpus 1024 --measure auto",
                    "Confirm the best plan by single ranks of it on this machine"},
                   {"train --model 175b --gpus 256,512,1024 --gpu-hour-price 2",
                    "How it scales, how long it takes, what it costs"},
                   {"train --model 175b --gpus 1024 --tp 4,8 --no-sp --recompute none,full",
                    "Only such plans"},
                   {"train --model 175b --gpus 1024 --compare-with train.sh",
                    "How much faster than a script of Megatron-LM"}},
      .options = scenario_options(),
      .run = run_train};
  for (Option& option : command.options)
    if (option.name == "--gpus") {
      option.kind = ValueKind::integers;
      option.help = "Number of GPUs; all of them are used. Several (256,512) compare how it scales";
    }
  for (Option& option : restriction_options()) command.options.push_back(std::move(option));
  command.options.push_back(plan_file_option(
      "--compare-with",
      "Show the plan of a Megatron-LM script, DeepSpeed JSON, NeMo 1.x YAML or torchtitan TOML "
      "beside the best; its sequence, batch and precision are taken where none is given"));
  for (Option& option : measure_options()) command.options.push_back(std::move(option));
  command.options.push_back(price_option());
  command.options.push_back(json_option());
  command.options.push_back(database_option());
  return command;
}

}  // namespace tuner
