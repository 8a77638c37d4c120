// Phantom ranks: predicted beside metered.
#include "tuner/search/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/units.h"
#include "tuner/model/cost_model.h"

namespace tuner {

using engine::Outcome;
using engine::OutcomeStatus;

namespace {

constexpr int64_t kTimedSamples = 5;
constexpr int64_t kTimedWarmUp = 2;
constexpr double kLeastDeadline = 120;
constexpr double kPatience = 20;  // times what is expected

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

std::vector<ConfirmedCount> compare(const SingleRank& rank, const Outcome& metered) {
  using Unit = ConfirmedCount::Unit;
  std::vector<ConfirmedCount> counts;
  if (!metered.memory.stages.empty())
    for (const auto& [use, predicted] : rank.memory)
      counts.push_back({fmt::format("{} memory", name_of(use)), Unit::bytes, predicted,
                        metered.memory.stages.front()[use]});
  counts.push_back(
      {"matrix products", Unit::flops, rank.work.matmul_flops, metered.matmul_flops_per_rank});
  Messages expected = messages_of(rank.work.traffic), seen = messages_of(metered.traffic);
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

std::string progress_text(const Slice& slice, size_t place) {
  const SingleRank& rank = slice.ranks[place];
  return fmt::format("rank {} of the {} stage alone, {} of {}: {}, {} matrix FLOP; about {} in all",
                     rank.job.phantom_rank, rank.place, place + 1, slice.ranks.size(),
                     engine::format_bytes(rank.bytes), engine::format_count(rank.work.matmul_flops),
                     engine::format_seconds(slice.seconds));
}

ConfirmedStage stage_of(const SingleRank& rank, const Measurement& found) {
  ConfirmedStage row{.stage = rank.stage,
                     .place = rank.place,
                     .rank = rank.job.phantom_rank,
                     .status = found.outcome.status,
                     .reason = found.outcome.reason,
                     .trials = found.trials,
                     .measured_seconds = found.outcome.step_seconds,
                     .predicted_bytes = rank.bytes,
                     .peak_bytes = found.outcome.memory.peak_bytes,
                     .counts = {}};
  if (row.status != OutcomeStatus::ok) return row;
  row.counts = compare(rank, found.outcome);
  row.predicted_seconds = rank.seconds;
  return row;
}

}  // namespace

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

Confirmation confirm_slice(const Slice& slice, Profiler& profiler, const ConfirmOptions& options) {
  Confirmation result{.of = slice.of,
                      .of_layers = slice.of_layers,
                      .slice = slice.plan,
                      .slice_text = slice.text,
                      .layers = slice.layers,
                      .precision = slice.ranks.front().job.workload.precision,
                      .device = options.device,
                      .times_count = options.times_count,
                      .stages = {}};
  const auto stopped = [&] { return options.stop != nullptr && *options.stop != 0; };
  TrialLimits limits;
  limits.deadline_seconds = std::max(kLeastDeadline, kPatience * slice.seconds);
  limits.stop = options.stop;
  double measured = 0, predicted = 0;
  for (size_t i = 0; i < slice.ranks.size() && !stopped(); ++i) {
    if (options.progress) options.progress(progress_text(slice, i));
    engine::Job job = slice.ranks[i].job;
    job.warmup_steps = options.times_count ? kTimedWarmUp : 0;
    const Measurement found =
        profiler.measure(std::move(job), options.times_count ? kTimedSamples : 1, limits);
    result.new_trials += found.new_trials;
    result.spent_seconds += found.spent_seconds;
    const ConfirmedStage& row = result.stages.emplace_back(stage_of(slice.ranks[i], found));
    if (row.status != OutcomeStatus::ok) continue;
    measured += row.measured_seconds;
    predicted += row.predicted_seconds;
  }
  result.interrupted = stopped();
  if (options.times_count && measured > 0 && predicted > 0)
    result.compute_factor = measured / predicted;
  return result;
}

}  // namespace tuner
