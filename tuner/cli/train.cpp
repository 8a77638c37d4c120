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
#include "tuner/cli/gpu_cluster.h"
#include "tuner/cli/measure_options.h"
#include "tuner/cli/plan_file.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/sweep.h"
#include "tuner/cli/trial_cluster.h"
#include "tuner/search/confirm.h"
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

// What happened to the trials, for the status of the run and the exit code.
struct Ending {
  ExitCode code = ExitCode::found;
  std::string status = "found";
};

Ending ending_of(const Recommendation& r, int stopped_by) {
  if (!r.best) return {ExitCode::nothing_fits, "nothing fits"};
  if (stopped_by != 0)
    return {stopped_by == SIGINT ? ExitCode::interrupted : ExitCode::terminated, "interrupted"};
  const auto lost = [](const PlanMeasurement& one) { return is_lost(one.outcome); };
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
  else if (r.measurement && r.measurement->race.budget_ended)
    print_message("the measuring budget ended; a longer --measure-budget goes on from there\n");
}

// The GPU of this machine that trials run on; none where they run on its processor.
std::optional<DeviceSpec> trial_gpu(const MeasureRequest& request) {
  if (request.device != TrialDevice::cuda) return std::nullopt;
  return built_in_gpu_cluster(ask_worker(find_worker(request.device)), 1).device;
}

// What this machine has for single ranks of a plan.
SliceRoom room_here(const Host& host, const MeasureRequest& request, engine::Precision precision,
                    const std::optional<DeviceSpec>& gpu) {
  constexpr double kMemoryShare = 0.7;  // of what is free
  constexpr double kArithmetic = 0.7;   // of the peak, in whole layers
  constexpr double kFirstTouch = 1e9;   // bytes/s
  const engine::Precision stored =
      precision == engine::Precision::f32 ? precision : engine::Precision::bf16;
  if (gpu)
    return {kMemoryShare * gpu->memory_bytes, request.budget_seconds,
            kArithmetic * std::max(gpu->peak(stored), gpu->peak(engine::Precision::f32)),
            gpu->memory_bytes_per_second};
  const DeviceSpec device = host_cluster(host, 1, "").cluster.device;
  const double peak = std::max(device.peak(stored), device.peak(engine::Precision::f32));
  return {kMemoryShare * available_memory_bytes(), request.budget_seconds,
          kArithmetic * peak * host.cores, kFirstTouch};
}

// Prints the trials of single ranks. Nothing is stored.
int show_ranks(const Slice& slice, const Launcher& launcher) {
  std::string text;
  for (const SliceStage& stage : slice.stages)
    text += fmt::format("rank {} of the {} stage of {} with {} layers: {}\n  {}\n", stage.rank,
                        stage.place, engine::describe(slice.plan), slice.scenario.model.layers,
                        engine::format_bytes(stage.bytes),
                        fmt::join(launcher.command(1, "JOB.json"), " "));
  print_result(text + fmt::format("About {} in all.\n", engine::format_seconds(slice.seconds)));
  return 0;
}

// Predicts, and runs single ranks of the best plan.
int confirm_too(const Arguments& arguments, const ScenarioAnswer& asked,
                const Restrictions& restrictions, const MeasureRequest& request,
                const Launcher& launcher, const Host& host, const std::optional<Imported>& file) {
  Recommendation r = recommend(asked.scenario, restrictions);
  fill_in(r, asked, arguments);
  const std::optional<DeviceSpec> gpu = trial_gpu(request);
  std::optional<Slice> slice;
  std::string why_not = "no plan fits, so there is nothing to confirm";
  if (r.best)
    slice = slice_of(asked.scenario, r.best->plan,
                     room_here(host, request, asked.scenario.workload.precision, gpu), why_not);
  const std::string nothing_run = "nothing was run: " + why_not + "\n";
  if (request.dry_run && slice) return show_ranks(*slice, launcher);
  if (request.dry_run) {
    print_message(nothing_run);
    return static_cast<int>(r.best ? ExitCode::partial : ExitCode::nothing_fits);
  }
  Store store(store_path(arguments));
  const int64_t run = store.add_run(
      unfinished_run(arguments, asked.scenario.model, asked.scenario.cluster, "train"));
  Ending ending;
  if (slice) {
    Profiler profiler(store, run, launcher, host);
    const StopSignals signals;
    ProgressLine line;
    const ConfirmOptions options = {
        .times_count = gpu && gpu->name == asked.scenario.cluster.device.name,
        .device = gpu ? fmt::format("this machine's {}", gpu->title)
                      : fmt::format("this machine ({}, {} cores)", host.cpu, host.cores),
        .stop = &signals.seen(),
        .progress = [&](const std::string& text) { line.tell(text); }};
    r.confirmation = confirm_plan(asked.scenario, *slice, profiler, options, *r.best);
    if (!r.confirmation->is_complete()) ending = {ExitCode::partial, "partly confirmed"};
    if (signals.seen() != 0)
      ending = {signals.seen() == SIGINT ? ExitCode::interrupted : ExitCode::terminated,
                "interrupted"};
  } else {
    ending = {ExitCode::partial, "found"};
  }
  if (!r.best) ending = {ExitCode::nothing_fits, "nothing fits"};
  const nlohmann::json answer = answer_of(r, file);
  print_answer(answer, arguments);
  store.finish_run(run, title_of(r), ending.status, json_text(answer, -1));
  if (slice)
    tell_ending(r, ending);
  else
    print_message(nothing_run);
  return static_cast<int>(ending.code);
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

// Whether trials here run whole plans. Of a cluster of other devices they run single ranks.
bool runs_whole_plans(const Scenario& scenario, const MeasureRequest& request) {
  const bool same =
      request.device == TrialDevice::cuda ? request.this_host : scenario.cluster.device.is_cpu();
  if (same && scenario.stack.name == "autotune") return true;
  if (same)
    throw engine::InputError(
        fmt::format("trials run under the stack autotune, not {}; leave out --gpu and --stack to "
                    "make this machine the cluster, or leave out --measure",
                    scenario.stack.name));
  if (!request.automatic)
    throw engine::InputError(
        fmt::format("this machine has no {} to time plans on; --measure auto runs single ranks of "
                    "the best plan to confirm its bytes, products and messages",
                    scenario.cluster.device.name));
  if (request.launcher != LauncherKind::local)
    throw engine::InputError(
        "single ranks of a plan run on this machine; leave out --launcher, or leave out --gpu");
  return false;
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
  const bool whole = launcher && runs_whole_plans(asked.scenario, request);
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
