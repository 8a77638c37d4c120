// Event simulation of a pipeline schedule.
#include "tuner/model/pipeline_simulation.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using engine::PipelineStep;

constexpr double kPending = -1;

// Every stage runs its own list in order; a pass starts when the stage is free and its input is
// there.
// Tells each pass, with its start and end, to `tell`.
template <class Tell>
double simulate(const PipelineTimes& times, const engine::PipelineShape& shape, Tell&& tell) {
  const int stages = times.stages(), chunks = times.chunks();
  const int64_t micro_batches = shape.micro_batches;
  const int places = stages * chunks;
  std::vector<std::vector<PipelineStep>> lists;
  for (int stage = 0; stage < stages; ++stage) lists.push_back(make_schedule(shape, stage));
  std::vector<double> forward_end(static_cast<size_t>(places * micro_batches), kPending);
  std::vector<double> backward_end(forward_end);
  std::vector<size_t> next(static_cast<size_t>(stages), 0);
  std::vector<double> free_at(static_cast<size_t>(stages), 0);
  auto at = [&](int place, int64_t micro_batch) {
    return static_cast<size_t>(place * micro_batches + micro_batch);
  };

  size_t remaining = 0;
  for (const auto& list : lists) remaining += list.size();
  while (remaining > 0) {
    const size_t before = remaining;
    for (int stage = 0; stage < stages; ++stage) {
      const auto s = static_cast<size_t>(stage);
      for (; next[s] < lists[s].size(); ++next[s], --remaining) {
        const PipelineStep& step = lists[s][next[s]];
        const int place = step.chunk * stages + stage;
        const bool forward = step.kind == PipelineStep::Kind::forward;
        const bool source = forward ? place == 0 : place == places - 1;
        const double input = source    ? 0
                             : forward ? forward_end[at(place - 1, step.micro_batch)]
                                       : backward_end[at(place + 1, step.micro_batch)];
        if (input == kPending) break;
        const double duration =
            forward ? times.forward(stage, step.chunk) : times.backward(stage, step.chunk);
        const double start = std::max(free_at[s], input);
        free_at[s] = start + duration;
        tell(stage, step, start, free_at[s]);
        (forward ? forward_end : backward_end)[at(place, step.micro_batch)] = free_at[s];
      }
    }
    engine::expect(remaining < before, "a schedule that never waits for itself");
  }
  return *std::max_element(free_at.begin(), free_at.end());
}

double simulate(const PipelineTimes& times, const engine::PipelineShape& shape) {
  return simulate(times, shape, [](int, const PipelineStep&, double, double) {});
}

}  // namespace

std::vector<PipelinePass> pipeline_timeline(const PipelineTimes& times,
                                            const engine::PipelineShape& shape) {
  std::vector<PipelinePass> passes;
  simulate(times, shape, [&](int stage, const PipelineStep& step, double start, double end) {
    passes.push_back({stage, step, start, end});
  });
  return passes;
}

double simulate_pipeline(const PipelineTimes& times, int64_t micro_batches) {
  constexpr int64_t kMostPasses = 40'000;
  const int64_t places = int64_t{times.stages()} * times.chunks();
  const engine::PipelineShape shape{times.stages(), times.chunks(), micro_batches};
  const engine::PipelineShape low = shortened(shape, 3), high = shortened(shape, 5);
  if (2 * places * micro_batches <= kMostPasses || high.micro_batches == micro_batches)
    return simulate(times, shape);
  // Beyond the ramps every further group of micro-batches costs the same.
  const double shorter = simulate(times, low), longer = simulate(times, high);
  return longer + (longer - shorter) / static_cast<double>(high.micro_batches - low.micro_batches) *
                      static_cast<double>(micro_batches - high.micro_batches);
}

}  // namespace tuner
