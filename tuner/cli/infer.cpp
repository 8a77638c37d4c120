// autotune infer, estimate infer and check infer: the best serving plan under budgets, and single
// ones.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/measure_options.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/serve_options.h"
#include "tuner/cli/single_ranks.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/trial_cluster.h"
#include "tuner/report/phrases.h"
#include "tuner/search/serve_explain.h"
#include "tuner/search/serve_measure.h"
#include "tuner/search/serve_recommendation.h"
#include "tuner/space/serve_rules.h"

namespace tuner {
namespace {

using engine::ExitCode;

constexpr int kNearestPlans = 3;

std::string sentence_of(const engine::Violation& violation) {
  return violation.nearest.empty()
             ? fmt::format("{} {}", violation.code, violation.message)
             : fmt::format("{} {}; nearest: {}", violation.code, violation.message,
                           fmt::join(violation.nearest, ", "));
}

// What no plan can mend is bad input: of the scenario, and formats that stack or device lack.
void refuse_impossible(const ServeScenario& scenario, const ServeRestrictions& only) {
  std::vector<std::string> problems;
  for (const engine::Violation& violation : serve_scenario_violations(scenario))
    problems.push_back(sentence_of(violation));
  std::vector<ServeFormat> weights = only.weights, kv = only.kv;
  if (weights.empty()) weights.push_back(checkpoint_weights(scenario));
  if (kv.empty()) kv.push_back(checkpoint_kv(scenario, weights.front()));
  for (const engine::Violation& violation : serve_format_violations(scenario, weights, kv))
    problems.push_back(sentence_of(violation));
  if (!problems.empty()) throw engine::InputError(problems);
}

void tell_defaults(const std::vector<std::string>& defaults, std::vector<std::string>& list) {
  if (!defaults.empty())
    list.insert(list.begin(), fmt::format("taken by default: {}", fmt::join(defaults, ", ")));
}

std::string title_of(const ServeRecommendation& r) {
  if (!r.best) return "no plan fits";
  return fmt::format("{}, {}, {} tokens/s", describe(r.best->plan),
                     engine::format_seconds(r.best->latency_seconds()),
                     rough_amount(r.best->tokens_per_second()));
}

Ending ending_of(const ServeRecommendation& r, int stopped_by) {
  if (!r.best) return {ExitCode::nothing_fits, "nothing fits"};
  if (stopped_by != 0) return stopped_ending(stopped_by);
  if (r.measurement && r.measurement->lost > 0) return {ExitCode::partial, "partly measured"};
  if (!r.meets_budget()) return {ExitCode::target_missed, "target missed"};
  return {};
}

int predict_only(const Arguments& arguments, const ServeQuestion& asked,
                 const ServeRestrictions& only) {
  ServeRecommendation r =
      recommend_serving(asked.scenario, only, asked.budgets, asked.gpu_hour_price);
  tell_defaults(asked.defaults, r.assumptions);
  const nlohmann::json answer = serve_recommendation_to_json(r);
  print_answer(answer, arguments);
  const Ending ending = ending_of(r, 0);
  store_answer(answer, arguments, r.scenario.model, r.scenario.cluster, "infer", title_of(r),
               ending.status);
  return static_cast<int>(ending.code);
}

int measure_too(const Arguments& arguments, const ServeQuestion& asked,
                const ServeRestrictions& only, const MeasureRequest& request,
                const Launcher& launcher, const Host& host) {
  Store store(store_path(arguments));
  const int64_t run = store.add_run(
      unfinished_run(arguments, asked.scenario.model, asked.scenario.cluster, "infer"));
  Profiler profiler(store, run, launcher, host);
  const StopSignals signals;
  ServeRecommendation r;
  {
    ProgressLine line;
    const MeasureOptions options = measure_options_of(request, signals, line);
    r = recommend_serving(asked.scenario, only, asked.budgets, asked.gpu_hour_price,
                          [&](std::vector<ServeCandidate>& candidates) {
                            return measure_serving(asked.scenario, asked.budgets, profiler, options,
                                                   candidates);
                          });
  }
  tell_defaults(asked.defaults, r.assumptions);
  const nlohmann::json answer = serve_recommendation_to_json(r);
  const Ending ending = ending_of(r, signals.seen());
  print_answer(answer, arguments);
  store.finish_run(run, title_of(r), ending.status, json_text(answer, -1));
  tell_ending(ending, r.measurement && r.measurement->race.budget_ended);
  return static_cast<int>(ending.code);
}

// Prints what would be run. Nothing is stored.
int show_trials(const ServeQuestion& asked, const ServeRestrictions& only,
                const MeasureRequest& request, const Launcher& launcher) {
  PlannedServeTrials trials;
  recommend_serving(asked.scenario, only, asked.budgets, asked.gpu_hour_price,
                    [&](std::vector<ServeCandidate>& candidates) {
                      trials = planned_trials(asked.scenario, asked.budgets, request.most_plans,
                                              candidates);
                      return ServeMeasureAccount{};
                    });
  std::string text;
  for (size_t i = 0; i < trials.certain.size(); ++i) {
    const ServeCandidate& one = trials.certain[i];
    text += fmt::format("trial {}: {}\n  latency ~{}: {}\n", i + 1, describe(one.plan),
                        engine::format_seconds(one.predicted.latency_seconds),
                        fmt::join(launcher.command(one.plan.gpus(), kJobFile), " "));
  }
  const std::string others =
      trials.most_others > 0
          ? fmt::format(
                "; after these, one by one, {} of {} others at most: those that could "
                "still be the best by the times measured",
                trials.most_others, trials.others)
          : "";
  text += trials.certain.empty()
              ? "no plan that the engine runs fits, so none is measured\n"
              : fmt::format(
                    "at most {} plans are measured{}. The best are measured longer; at most "
                    "{} in all. {}\n",
                    request.most_plans, others, engine::format_seconds(request.budget_seconds),
                    kJobFileIs);
  print_result(text);
  return 0;
}

// Predicts, and runs single ranks of the best plan.
int confirm_too(const Arguments& arguments, const ServeQuestion& asked,
                const ServeRestrictions& only, const MeasureRequest& request,
                const Launcher& launcher, const Host& host) {
  ServeScenario scenario = asked.scenario;
  const auto recommended = [&] {
    ServeRecommendation r = recommend_serving(scenario, only, asked.budgets, asked.gpu_hour_price);
    tell_defaults(asked.defaults, r.assumptions);
    return r;
  };
  ServeRecommendation r = recommended();
  RankQuestion question{scenario.model, scenario.cluster, "infer", engine::Precision::bf16, {}};
  if (r.best && r.best->plan.weights == ServeFormat::f32)
    question.precision = engine::Precision::f32;
  if (r.best)
    question.slice = [&](const SliceRoom& room, std::string& why_not) {
      return slice_of(scenario, r.best->plan, room, why_not);
    };
  return confirm_best(
      arguments, request, launcher, host, question,
      [&](std::optional<Confirmation> confirmation, std::string& title, Ending& ending) {
        if (confirmation && confirmation->times_count) {
          scenario.compute_factor = confirmation->compute_factor;
          r = recommended();
        }
        r.confirmation = std::move(confirmation);
        title = title_of(r);
        ending = ending_of(r, 0);
        return serve_recommendation_to_json(r);
      });
}

int run_infer(const Arguments& arguments) {
  const MeasureRequest request = measure_request_of(arguments);
  std::optional<Launcher> launcher;
  if (request.most_plans > 0) launcher = trial_launcher(arguments, request);
  const Host host = this_host();
  std::optional<HostCluster> cluster;
  if (request.this_host) cluster = trial_cluster(arguments, request, launcher, host);
  const ServeRestrictions only = serve_restrictions_of(arguments);
  const bool batch_is_one = only.batch == std::vector<int64_t>{1};
  const auto question = [&] {
    return serve_question_of(arguments, batch_is_one,
                             cluster ? std::optional(cluster->cluster) : std::nullopt);
  };
  ServeQuestion asked = question();
  refuse_impossible(asked.scenario, only);
  const bool whole =
      launcher && runs_whole_plans(asked.scenario.cluster, asked.scenario.stack.name, request);
  if (cluster && calibrate_stale(arguments, request, launcher, host, TrialKind::serving, *cluster))
    asked = question();
  if (cluster && !cluster->remark.empty()) print_message(cluster->remark + "\n");
  if (!launcher) return predict_only(arguments, asked, only);
  if (!whole) return confirm_too(arguments, asked, only, request, *launcher, host);
  if (request.dry_run) return show_trials(asked, only, request, *launcher);
  return measure_too(arguments, asked, only, request, *launcher, host);
}

// The exit code of a single plan: it breaks a rule or does not fit, misses a budget, or is sound.
int exit_code(const ServeCheck& check) {
  if (!check.violations.empty()) return static_cast<int>(ExitCode::nothing_fits);
  return static_cast<int>(check.checked.meets() ? ExitCode::found : ExitCode::target_missed);
}

int run_single(const Arguments& arguments, bool with_nearest) {
  const bool batch_is_one = arguments.integer("--batch").value_or(0) == 1;
  const ServeQuestion asked = serve_question_of(arguments, batch_is_one);
  const ServePlan plan = serve_plan_of(arguments, asked.scenario);
  const ServeCheck check =
      check_serving(asked.scenario, plan, asked.budgets, with_nearest ? kNearestPlans : 0);
  std::vector<std::string> assumptions = serve_assumptions(asked.scenario, {plan.weights});
  tell_defaults(asked.defaults, assumptions);
  print_answer(serve_check_to_json(asked.scenario, asked.budgets, asked.gpu_hour_price, check,
                                   assumptions, with_nearest),
               arguments);
  return exit_code(check);
}

int run_estimate(const Arguments& arguments) { return run_single(arguments, false); }
int run_check(const Arguments& arguments) { return run_single(arguments, true); }

std::vector<Option> single_plan_options() {
  std::vector<Option> options = serve_scenario_options();
  for (Option& option : serve_plan_options()) options.push_back(std::move(option));
  options.push_back(json_option());
  return options;
}

}  // namespace

Command infer_command() {
  Command command{
      .words = "infer",
      .summary = "Find the best plan to serve a model under budgets of latency and throughput",
      .description =
          "Predicts every legal plan (tensor and pipeline parallelism, replicas, batch, formats of "
          "weights and KV cache as far as they are asked for) and recommends the one with the "
          "highest throughput within the budgets; with --throughput-floor the one with the lowest "
          "latency above it. Requests come as a static batch, or as --concurrency or --rate says, "
          "which simulate the batching. No plan within the budgets: exit 4, with the nearest and "
          "what would meet them. With --device the plans that could win are measured, each trial "
          "is stored, and what was measured decides; of a cluster that is not here, --measure auto "
          "runs single ranks of the best plan and confirms what is counted.",
      .examples =
          {{"infer --model 175b --gpus 8 --output 64 --latency-budget 2s", "GPT-3 175B on 8 A100s"},
           {"infer --model llama-3.1-70b --gpus 8 --gpu h100-80gb --concurrency 64 --ttft "
            "500ms --tpot 30ms",
            "64 clients at a time"},
           {"infer --model llama-3.1-70b --gpus 8 --gpu h100-80gb --rate 5 --percentile p99 "
            "--ttft 1s --weights bf16,fp8",
            "5 requests a second; fp8 weights are allowed"},
           {"infer --model gpt3-tiny --gpus 2 --device cpu --input 64 --output 32 --latency-budget "
            "1s",
            "Measure plans of two ranks on this machine"},
           {"infer --model 175b --gpus 8 --measure auto",
            "Confirm the best plan by single ranks of it on this machine"},
           {"infer --model llama-3.1-8b --gpus 4 --throughput-floor 20k --gpu-hour-price 2",
            "The lowest latency at 20,000 tokens/s, and its cost"}},
      .options = serve_scenario_options(),
      .run = run_infer};
  for (Option& option : serve_restriction_options()) command.options.push_back(std::move(option));
  for (Option& option : measure_options()) command.options.push_back(std::move(option));
  command.options.push_back(json_option());
  command.options.push_back(database_option());
  return command;
}

Command estimate_infer_command() {
  return {
      .words = "estimate infer",
      .summary = "Predict latency, throughput and memory of one serving plan",
      .description = "Degrees that are not given are 1; replicas follow from the number of GPUs.",
      .examples = {{"estimate infer --model 175b --gpus 8 --tp 8 --batch 4 --output 64",
                    "A static batch of 4"},
                   {"estimate infer --model llama-3.1-8b --gpus 1 --gpu h100-80gb --concurrency "
                    "32 --stack vllm",
                    "32 clients on one H100"}},
      .options = single_plan_options(),
      .run = run_estimate};
}

Command check_infer_command() {
  return {.words = "check infer",
          .summary = "Name every rule that a serving plan breaks, and the nearest plans that work",
          .description =
              "Degrees that are not given are 1; replicas follow from the number of GPUs. "
              "`autotune explain CODE` documents a rule.",
          .examples = {{"check infer --model llama-3.1-70b --gpus 6 --tp 6",
                        "Heads that do not divide"},
                       {"check infer --model 175b --gpus 8 --tp 8 --batch 512", "Does it fit?"}},
          .options = single_plan_options(),
          .run = run_check};
}

}  // namespace tuner
