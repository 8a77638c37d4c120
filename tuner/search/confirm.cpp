// Phantom ranks: predicted beside metered.
#include "tuner/search/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/units.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/step_work.h"
#include "tuner/profile/statistics.h"

namespace tuner {

using engine::MemoryUse;
using engine::Outcome;
using engine::OutcomeStatus;

namespace {

constexpr int64_t kTimedSamples = 5;
constexpr double kLeastDeadline = 120;
constexpr double kPatience = 20;  // times what is expected

// What the engine counts exactly; the others come and go within a bound.
constexpr MemoryUse kExact[] = {MemoryUse::parameter, MemoryUse::gradient, MemoryUse::optimizer,
                                MemoryUse::activation, MemoryUse::recompute};
// What a device does by itself, whatever its neighbours do.
constexpr StepPart kComputed[] = {StepPart::gemm,        StepPart::attention,
                                  StepPart::elementwise, StepPart::launch,
                                  StepPart::recompute,   StepPart::embedding_and_head};

bool is_computed(std::string_view part) {
  return std::any_of(std::begin(kComputed), std::end(kComputed),
                     [&](StepPart one) { return name_of(one) == part; });
}

using Messages = std::map<std::string, std::pair<double, double>>;  // number and bytes

Messages messages_of(const std::vector<engine::Traffic>& traffic) {
  Messages messages;
  for (const engine::Traffic& one : traffic)
    messages[one.axis + " " + one.verb] = {static_cast<double>(one.messages),
                                           static_cast<double>(one.payload_bytes)};
  return messages;
}

std::vector<ConfirmedCount> compare(const Slice& slice, const SliceStage& stage,
                                    const Outcome& metered) {
  using Unit = ConfirmedCount::Unit;
  const engine::StageMemory predicted =
      MemoryModel(slice.scenario).evaluate(slice.plan).stages[static_cast<size_t>(stage.stage)];
  const StepWork work = step_work(slice.scenario, slice.plan, stage.stage);
  std::vector<ConfirmedCount> counts;
  if (!metered.memory.stages.empty())
    for (const MemoryUse use : kExact)
      counts.push_back({fmt::format("{} memory", name_of(use)), Unit::bytes, predicted[use],
                        metered.memory.stages.front()[use]});
  counts.push_back(
      {"matrix products", Unit::flops, work.matmul_flops, metered.matmul_flops_per_rank});
  Messages expected = messages_of(work.traffic), seen = messages_of(metered.traffic);
  for (const auto& [name, counted] : seen) expected.try_emplace(name);
  for (const auto& [name, count] : expected) {
    counts.push_back({name, Unit::messages, count.first, seen[name].first});
    counts.push_back({name, Unit::bytes, count.second, seen[name].second});
  }
  std::erase_if(counts, [](const ConfirmedCount& count) {
    return count.predicted == 0 && count.metered == 0;
  });
  return counts;
}

// Seconds of a step that the stage computes, as predicted for the slice on the cluster's device.
double predicted_compute(const Slice& slice, const SliceStage& stage) {
  Scenario scenario = slice.scenario;
  const CostModel model(scenario);
  const MicroBatchCost cost = model.micro_batch_cost(slice.plan);
  const auto layers = static_cast<double>(scenario.model.layers) / slice.plan.pp;
  const LayerCost& layer = cost.layer;
  double recompute = 0;
  if (slice.plan.recompute.mode == engine::Recompute::Mode::selective)
    recompute = layer.recompute_selective;
  else if (slice.plan.recompute.mode == engine::Recompute::Mode::full)
    recompute = layer.recompute_full;
  double seconds =
      layers * (layer.gemm + layer.attention + layer.elementwise + layer.launch + recompute);
  if (stage.stage == 0) seconds += cost.embedding_forward + cost.embedding_backward;
  if (stage.stage == slice.plan.pp - 1) seconds += cost.head_forward + cost.head_backward;
  return seconds * static_cast<double>(slice.plan.micro_batches());
}

// Scales what a device computes; what it waits for stays predicted.
void take_measured_compute(double factor, Outcome& predicted) {
  double sum = 0;
  for (auto& [name, seconds] : predicted.breakdown_seconds) {
    if (is_computed(name)) seconds *= factor;
    sum += seconds;
  }
  if (sum <= 0 || predicted.step_seconds <= 0) return;
  const double ratio = sum / predicted.step_seconds;
  predicted.step_seconds = sum;
  predicted.interval_seconds.low *= ratio;
  predicted.interval_seconds.high *= ratio;
  predicted.tokens_per_second_per_gpu /= ratio;
  predicted.tflops_per_gpu /= ratio;
  predicted.mfu /= ratio;
}

}  // namespace

engine::Job job_of(const Slice& slice, const SliceStage& stage, bool times_count) {
  engine::Job job;
  job.model = slice.scenario.model;
  job.plan = slice.plan;
  job.workload = slice.scenario.workload;
  job.workload.tokens = 1;
  job.warmup_steps = times_count ? 2 : 0;
  job.phantom_rank = stage.rank;
  return job;
}

Confirmation confirm_plan(const Scenario& scenario, const Slice& slice, Profiler& profiler,
                          const ConfirmOptions& options, PlanAnswer& answer) {
  Confirmation result;
  result.of = answer.plan;
  result.of_layers = scenario.model.layers;
  result.slice = slice.plan;
  result.layers = slice.scenario.model.layers;
  result.device = options.device;
  result.times_count = options.times_count;
  result.precision = slice.scenario.workload.precision;
  double measured = 0, predicted = 0;
  for (size_t i = 0; i < slice.stages.size(); ++i) {
    const SliceStage& stage = slice.stages[i];
    if (options.stop != nullptr && *options.stop != 0) result.interrupted = true;
    if (result.interrupted) break;
    if (options.progress)
      options.progress(fmt::format(
          "rank {} of the {} stage alone, {} of {}: {}, {} matrix FLOP; about {} in all",
          stage.rank, stage.place, i + 1, slice.stages.size(), engine::format_bytes(stage.bytes),
          engine::format_count(stage.flops), engine::format_seconds(slice.seconds)));
    TrialLimits limits;
    limits.deadline_seconds = std::max(kLeastDeadline, kPatience * slice.seconds);
    limits.stop = options.stop;
    const Measurement found = profiler.measure(job_of(slice, stage, options.times_count),
                                               options.times_count ? kTimedSamples : 1, limits);
    result.new_trials += found.new_trials;
    result.spent_seconds += found.spent_seconds;
    ConfirmedStage row{stage.stage,
                       stage.place,
                       stage.rank,
                       found.outcome.status,
                       found.outcome.reason,
                       found.trials,
                       found.outcome.step_seconds,
                       0,
                       stage.bytes,
                       found.outcome.memory.peak_bytes,
                       {}};
    if (found.outcome.status == OutcomeStatus::ok) {
      row.counts = compare(slice, stage, found.outcome);
      row.predicted_seconds = predicted_compute(slice, stage);
      measured += row.measured_seconds;
      predicted += row.predicted_seconds;
    }
    result.stages.push_back(std::move(row));
    if (options.stop != nullptr && *options.stop != 0) result.interrupted = true;
  }
  if (options.times_count && measured > 0 && predicted > 0) {
    result.compute_factor = measured / predicted;
    take_measured_compute(result.compute_factor, answer.predicted);
  }
  return result;
}

}  // namespace tuner
