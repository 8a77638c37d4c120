// Slice: a plan's ranks cut down in depth, so that one of them runs alone on a small machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tuner/model/scenario.h"

namespace tuner {

// What a machine has for a phantom rank.
struct SliceRoom {
  double bytes = 0;
  double seconds = 0;  // for all stages together
  double flops_per_second = 0;
  double bytes_per_second = 0;  // at which memory is first touched
};

// One of the stages that stand for all: the first, a middle one, the last.
struct SliceStage {
  int stage = 0;
  int64_t rank = 0;   // of the slice's world
  double bytes = 0;   // predicted, without the runtime
  double flops = 0;   // of a step
  std::string place;  // "first", "middle", "last", "only"
};

// Every rank has the shard shapes of the plan: tp, dp, sp, mbs, ZeRO, recomputation and the
// sequence are the plan's, under the built-in engine. Fewer are the layers of a chunk, the chunks,
// the stages and the micro-batches, which enter bytes, products and messages by their number only.
struct Slice {
  Scenario scenario;  // of the slice: its layers, its batch, the stack of the engine
  engine::ParallelPlan plan;
  std::vector<SliceStage> stages;
  double seconds = 0;  // expected, all stages
};

// The slice nearest to the plan that fits the room; the fastest one that fits in memory where none
// fits in time. nullopt: none fits, and `why_not` says what is in the way.
std::optional<Slice> slice_of(const Scenario& scenario, const engine::ParallelPlan& plan,
                              const SliceRoom& room, std::string& why_not);

}  // namespace tuner
