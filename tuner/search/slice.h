// Slice: a plan's ranks cut down in depth, so that one of them runs alone on a small machine.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/job.h"
#include "tuner/model/scenario.h"
#include "tuner/model/serve_scenario.h"
#include "tuner/model/step_work.h"
#include "tuner/search/confirmation.h"

namespace tuner {

// What a machine has for a phantom rank.
struct SliceRoom {
  double bytes = 0;
  double seconds = 0;  // for all stages together
  double flops_per_second = 0;
  double bytes_per_second = 0;          // at which memory is first touched
  double read_bytes_per_second = 1e10;  // and read again
  bool multiplies_bf16 = true;          // else ranks run in f32
};

// One of the ranks that stand for all: of the first stage, a middle one, the last. Its job, and
// what is predicted of it.
struct SingleRank {
  int stage = 0;
  std::string place;      // "first", "middle", "last", "only"
  engine::Job job;        // of the slice's world; a step without warm-up
  double bytes = 0;       // of memory, without the runtime
  double read_bytes = 0;  // of weights, by the passes behind the first one
  double seconds = 0;     // that the cluster's device computes in a step
  std::vector<std::pair<engine::MemoryUse, double>> memory;  // bytes that are exact
  StepWork work;
};

struct Slice {
  AnyPlan of;  // the plan
  int64_t of_layers = 0;
  AnyPlan plan;  // of the slice
  std::string text;
  int64_t layers = 0;
  std::vector<SingleRank> ranks;
  double seconds = 0;  // expected here, all ranks
};

// The slice nearest to the plan that fits the room; the fastest one that fits in memory where none
// fits in time. nullopt: none fits, and `why_not` says what is in the way. Every rank runs under
// the built-in engine, whose types are f32 and bf16.
//
// Of training, ranks have the shard shapes of the plan: tp, dp, sp, mbs, ZeRO, recomputation and
// the sequence are the plan's. Fewer are the layers of a chunk, the chunks, the stages and the
// micro-batches, which enter bytes, products and messages by their number only.
std::optional<Slice> slice_of(const Scenario& scenario, const engine::ParallelPlan& plan,
                              const SliceRoom& room, std::string& why_not);
// Of serving, a rank runs one static batch. tp and the prompts are the plan's; replicas do not know
// of each other, so that it is one. Fewer are layers, stages, generated tokens and sequences.
std::optional<Slice> slice_of(const ServeScenario& scenario, const ServePlan& plan,
                              const SliceRoom& room, std::string& why_not);

// The stages that stand for pp of them, and their places.
std::vector<std::pair<int, std::string>> standing_stages(int pp);

// Whether rules keep the engine from running a slice; `why_not` says which.
bool is_refused(const AnyPlan& slice, const std::vector<engine::Violation>& broken,
                std::string& why_not);

// Of `count` slices, nearest to the plan first. `cut` makes one of them, without its seconds;
// nullopt: the engine does not run it, and `why_not` says why.
using CutSlice = std::function<std::optional<Slice>(size_t place, std::string& why_not)>;
std::optional<Slice> choose_slice(size_t count, const CutSlice& cut, const SliceRoom& room,
                                  std::string& why_not);

}  // namespace tuner
