// Schedule: the order in which one pipeline rank runs its forward and backward passes, as data.
#pragma once
#include <cstdint>
#include <vector>

namespace engine {

struct PipelineShape {
  int stages = 1;             // ranks on the pipeline axis
  int chunks = 1;             // model chunks a rank; > 1 = interleaved
  int64_t micro_batches = 1;  // a step
  int64_t group = 0;          // micro-batches of a group (see interleave_group); 0 = the rule's
};

// The same pipeline with fewer micro-batches: `groups` whole groups and the rest. A long step
// repeats itself group by group, so what a shorter one shows holds for it.
PipelineShape shortened(const PipelineShape& shape, int64_t groups);

struct PipelineStep {
  enum class Kind : uint8_t { forward, backward } kind;
  int chunk;
  int64_t micro_batch;

  bool operator==(const PipelineStep&) const = default;
};

// Micro-batches that run through one chunk before the next chunk takes over: the number of stages
// where it divides the micro-batches, else the smallest larger group that leaves no remainder
// between 1 and stages - 1 (which would stall). The shape's own where it has one. 0 when there are
// fewer micro-batches than stages.
int64_t interleave_group(const PipelineShape& shape);

// Forward passes that a rank runs before its first backward.
int64_t warm_up_steps(const PipelineShape& shape, int stage);

// The most (micro-batch, chunk) pairs whose activations a rank holds at once.
int64_t most_in_flight(const PipelineShape& shape, int stage);

// 1F1B, or interleaved 1F1B with more than one chunk (Narayanan et al. 2021, section 2.2). Every
// micro-batch passes every chunk once in each direction. Throws std::invalid_argument when
// interleaving is asked with fewer micro-batches than stages.
std::vector<PipelineStep> make_schedule(const PipelineShape& shape, int stage);

}  // namespace engine
