// CostModel: time of a training step, in parts that sum to it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/model/operators.h"
#include "tuner/model/pipeline_simulation.h"
#include "tuner/model/scenario.h"

namespace tuner {

// The parts of a step, in the order of reports. All but the last five are of the slowest pipeline
// stage; bubble is its waiting for the others.
enum class StepPart : uint8_t {
  gemm,
  attention,
  elementwise,
  launch,
  tensor_communication,
  context_communication,
  recompute,
  embedding_and_head,
  pipeline_communication,
  micro_batch_overhead,
  bubble,
  data_communication,
  optimizer,
  step_overhead,
  stragglers,
};
constexpr int kStepParts = 15;
std::string_view name_of(StepPart part);

struct StepParts {
  std::array<double, kStepParts> seconds{};

  double& operator[](StepPart part) { return seconds[static_cast<size_t>(part)]; }
  double operator[](StepPart part) const { return seconds[static_cast<size_t>(part)]; }
  double total() const;
};

// Time of one layer for one micro-batch on one rank; seconds.
struct LayerCost {
  // Parts of forward and backward together, without recomputation.
  double gemm = 0;
  double attention = 0;
  double elementwise = 0;
  double tensor = 0;   // exposed communication of the tensor axis
  double context = 0;  // exposed communication of the context axis
  double launch = 0;   // waiting for the host
  // Whole passes.
  double forward = 0;
  double backward = 0;
  double recompute_selective = 0;  // on top of backward
  double recompute_full = 0;
};

// Costs that depend on tp, cp, sp and mbs only.
struct MicroBatchCost {
  LayerCost layer;
  double embedding_forward = 0;
  double embedding_backward = 0;
  double head_forward = 0;
  double head_backward = 0;
  double boundary_bytes = 0;  // of one message between stages
  engine::RankParameters parameters;
};

class CostModel {
 public:
  explicit CostModel(const Scenario& scenario);

  // Of the plan's tp, cp, sp and mbs; its other members do not matter.
  MicroBatchCost micro_batch_cost(const engine::ParallelPlan& plan) const;

  // On a CPU host with more ranks than cores the ranks take turns: a step takes the longer of that
  // and of all work divided by the cores, in which the bubbles of one rank are filled by others.

  // The closed form: m · max tᵢ + (Σ tᵢ − max tᵢ) / v over the stages i, plus what is done once a
  // step. `cost` must be that of the plan.
  StepParts step(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;

  // The same with the bubble of an event simulation of the schedule.
  StepParts simulated_step(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;

  // Standard deviation of log(measured / predicted): it grows with the distance of the plan from
  // the runs of the fit.
  double sigma(const engine::ParallelPlan& plan) const;
  // Forward and backward pass of every chunk, for a simulation of the schedule.
  PipelineTimes pipeline_times(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;

  // Everything of an Outcome but the memory: step, 90 % interval, breakdown, rates.
  void fill_outcome(const engine::ParallelPlan& plan, engine::Outcome& outcome) const;

 private:
  struct Stages;
  StepParts own_step(const MicroBatchCost& cost, const engine::ParallelPlan& plan,
                     const Stages& stages) const;
  void share_cores(const engine::ParallelPlan& plan, const Stages& stages, StepParts& parts) const;
  Stages stages(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;
  double pipeline_cost(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;
  double pass_overhead(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;
  double data_cost(const MicroBatchCost& cost, const engine::ParallelPlan& plan,
                   const Stages& stages) const;
  double sharded_layer_extra(const MicroBatchCost& cost, const engine::ParallelPlan& plan) const;
  LayerCost layer_cost(const engine::ParallelPlan& plan) const;
  double tensor_pass(const engine::ParallelPlan& plan, double bytes, bool backward) const;

  const Scenario* scenario_;
  Operators operators_;
};

// 90 % interval around a prediction whose logarithm errs by `sigma`.
engine::Interval interval_of(double value, double sigma);

}  // namespace tuner
