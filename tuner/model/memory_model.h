// MemoryModel: bytes by use of every pipeline stage of a plan.
#pragma once
#include <cstdint>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"

namespace tuner {

// Sizes of one rank that depend on tp, cp, sp and mbs only; bytes, parameters in elements.
struct RankMemory {
  engine::RankParameters parameters;
  double saved_none = 0;  // of one layer and micro-batch, by what is recomputed
  double saved_selective = 0;
  double saved_full = 0;
  double embedding_saved = 0;  // of one micro-batch on the first stage
  double head_saved = 0;       // of one micro-batch on the last stage, logits included
  double output_saved = 0;     // of one micro-batch and chunk that is not on the last stage
  double layer_workspace = 0;  // transient while one layer runs backward
  double head_workspace = 0;   // transient while the loss runs backward
};

class MemoryModel {
 public:
  explicit MemoryModel(const Scenario& scenario);

  // Of the plan's tp, cp, sp and mbs; its other members do not matter.
  RankMemory rank_memory(const engine::ParallelPlan& plan) const;

  // All stages of a legal plan.
  engine::MemoryOutcome evaluate(const engine::ParallelPlan& plan) const;
  engine::MemoryOutcome evaluate(const RankMemory& rank, const engine::ParallelPlan& plan) const;
  // The fullest stage only; `rank` must be that of the plan. An upper bound where an interleaved
  // stage has chunks of different length, else equal to evaluate().
  double peak_bytes(const RankMemory& rank, const engine::ParallelPlan& plan) const;

  // A plan fits when its peak with the error of the model on top is within the capacity: an error
  // to the low side is an out-of-memory failure.
  bool fits(double peak_bytes) const;
  double margin_bytes(double peak_bytes) const;

 private:
  struct StageLoad;
  engine::StageMemory stage_memory(const RankMemory& rank, const engine::ParallelPlan& plan,
                                   const StageLoad& load) const;
  StageLoad even_load(const engine::ParallelPlan& plan, int stage, int layers) const;
  double exact_activation(const RankMemory& rank, const engine::ParallelPlan& plan,
                          int stage) const;
  const Scenario* scenario_;
};

// Saved bytes of a chunk of `layers` layers and one micro-batch under the plan's recomputation.
double saved_chunk_bytes(const RankMemory& rank, const engine::Recompute& recompute, int layers);

}  // namespace tuner
