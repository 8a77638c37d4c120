// 1F1B and interleaved 1F1B as one pure function.
#include "engine/plan/schedule.h"

#include <algorithm>
#include <stdexcept>

namespace engine {

PipelineShape shortened(const PipelineShape& shape, int64_t groups) {
  const int64_t group = shape.chunks == 1 ? shape.stages : interleave_group(shape);
  PipelineShape shorter = shape;
  shorter.group = shape.chunks == 1 ? 0 : group;
  if (group > 0 && shape.micro_batches > (groups + 1) * group)
    shorter.micro_batches = groups * group + shape.micro_batches % group;
  return shorter;
}

int64_t interleave_group(const PipelineShape& shape) {
  if (shape.group > 0) return shape.group;
  for (int64_t group = shape.stages; group <= shape.micro_batches; ++group) {
    const int64_t rest = shape.micro_batches % group;
    if (rest == 0 || rest >= shape.stages) return group;
  }
  return 0;
}

int64_t warm_up_steps(const PipelineShape& shape, int stage) {
  const int64_t behind = shape.stages - 1 - stage;
  const int64_t total = shape.micro_batches * shape.chunks;
  if (shape.chunks == 1) return std::min(total, behind);
  return std::min(total, 2 * behind + (shape.chunks - 1) * interleave_group(shape));
}

int64_t most_in_flight(const PipelineShape& shape, int stage) {
  return std::min(shape.micro_batches * shape.chunks, warm_up_steps(shape, stage) + 1);
}

std::vector<PipelineStep> make_schedule(const PipelineShape& shape, int stage) {
  const int64_t group = shape.chunks == 1 ? 1 : interleave_group(shape);
  if (group == 0)
    throw std::invalid_argument("interleaving needs at least as many micro-batches as stages");

  // The k-th pass of one direction: groups of micro-batches, each taken through all chunks in turn.
  std::vector<PipelineStep> order;
  const int64_t total = shape.micro_batches * shape.chunks;
  order.reserve(static_cast<size_t>(total));
  for (int64_t first = 0; first < shape.micro_batches; first += group)
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (int64_t m = first; m < std::min(first + group, shape.micro_batches); ++m)
        order.push_back({PipelineStep::Kind::forward, chunk, m});

  std::vector<PipelineStep> steps;
  steps.reserve(static_cast<size_t>(2 * total));
  auto forward = [&](int64_t k) { steps.push_back(order[static_cast<size_t>(k)]); };
  auto backward = [&](int64_t k) {
    const PipelineStep& pass = order[static_cast<size_t>(k)];
    steps.push_back(
        {PipelineStep::Kind::backward, shape.chunks - 1 - pass.chunk, pass.micro_batch});
  };
  const int64_t warm_up = warm_up_steps(shape, stage);
  for (int64_t k = 0; k < warm_up; ++k) forward(k);
  for (int64_t k = warm_up; k < total; ++k) {
    forward(k);
    backward(k - warm_up);
  }
  for (int64_t k = total - warm_up; k < total; ++k) backward(k);
  return steps;
}

}  // namespace engine
