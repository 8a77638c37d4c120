// Event simulation of a pipeline schedule with unequal stages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/schedule.h"

namespace tuner {

// Seconds of the forward and backward pass of every chunk of every stage.
class PipelineTimes {
 public:
  PipelineTimes(int stages, int chunks)
      : stages_(stages), chunks_(chunks), times_(static_cast<size_t>(stages * chunks)) {}
  void set(int stage, int chunk, double forward, double backward) {
    times_[index(stage, chunk)] = {forward, backward};
  }
  double forward(int stage, int chunk) const { return times_[index(stage, chunk)].forward; }
  double backward(int stage, int chunk) const { return times_[index(stage, chunk)].backward; }
  int stages() const { return stages_; }
  int chunks() const { return chunks_; }

 private:
  struct Passes {
    double forward = 0, backward = 0;
  };
  size_t index(int stage, int chunk) const { return static_cast<size_t>(chunk * stages_ + stage); }
  int stages_, chunks_;
  std::vector<Passes> times_;
};

// One pass of one chunk, with its seconds from the first forward on.
struct PipelinePass {
  int stage = 0;
  engine::PipelineStep step;
  double start = 0, end = 0;
};

// Every pass of engine::make_schedule; those of a stage stand in the order in which they run.
std::vector<PipelinePass> pipeline_timeline(const PipelineTimes& times,
                                            const engine::PipelineShape& shape);

// Seconds from the first forward to the last backward of engine::make_schedule. Of very long steps
// the steady state is extrapolated from two shorter simulations.
double simulate_pipeline(const PipelineTimes& times, int64_t micro_batches);

}  // namespace tuner
