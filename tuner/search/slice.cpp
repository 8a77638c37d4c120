// Chooses how much of a plan's depth a small machine can run.
#include "tuner/search/slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/units.h"
#include "engine/plan/grid.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/step_work.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::MemoryUse;
using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;

namespace {

// How deep a slice is.
struct Depth {
  int pp = 1, vpp = 1;
  int layers = 1;  // of a chunk
  int64_t micro_batches = 1;
};

// Layers of a chunk with both kinds: recomputed and not.
int least_layers(const Recompute& recompute, int64_t layers) {
  const bool mixed = recompute.mode == Recompute::Mode::full && recompute.layers > 0;
  return mixed && layers > recompute.layers ? 2 : 1;
}

// Nearest to the plan first: the number of stages counts most, then that chunks take turns, then
// that the pipeline fills, then the layers.
std::vector<Depth> depths_of(const ParallelPlan& plan, int64_t model_layers) {
  const auto chunk = std::max<int64_t>(1, model_layers / (int64_t{plan.pp} * plan.vpp));
  std::vector<Depth> depths;
  for (int pp = plan.pp; pp >= std::min(plan.pp, 2); pp = pp > 4 ? pp / 2 : pp - 1)
    for (int vpp = plan.vpp; vpp >= 1; vpp = vpp > 2 ? vpp / 2 : vpp - 1)
      for (int64_t batches : {2 * pp, pp, 1}) {
        if (batches > plan.micro_batches() || (vpp > 1 && batches % pp != 0)) continue;
        int64_t layers = chunk;
        const int64_t least = least_layers(plan.recompute, chunk);
        for (; layers > least; layers = std::max(least, layers / 2))
          depths.push_back({pp, vpp, static_cast<int>(layers), batches});
        depths.push_back({pp, vpp, static_cast<int>(least), batches});
      }
  return depths;
}

Slice cut(const Scenario& scenario, const ParallelPlan& plan, const Depth& depth) {
  Slice slice;
  slice.scenario = scenario;
  slice.scenario.stack = find_stack("autotune");
  slice.scenario.model.layers = int64_t{depth.pp} * depth.vpp * depth.layers;
  engine::Workload& work = slice.scenario.workload;
  // The engine stores 16-bit formats alike.
  if (work.precision != Precision::f32) work.precision = Precision::bf16;
  ParallelPlan& cut = slice.plan = plan;
  cut.pp = depth.pp;
  cut.vpp = depth.vpp;
  cut.layers_per_stage.clear();
  if (cut.recompute.layers > 0)
    cut.recompute.layers = std::max(1, std::min(cut.recompute.layers, depth.layers - 1));
  work.gbs = cut.gbs = depth.micro_batches * plan.mbs * plan.dp;
  slice.scenario.cluster.gpus = cut.world();
  cut = normalized(slice.scenario, cut);
  return slice;
}

void add_stages(Slice& slice) {
  const ParallelPlan& plan = slice.plan;
  std::vector<std::pair<int, std::string>> places = {{0, plan.pp > 1 ? "first" : "only"}};
  if (plan.pp > 2) places.emplace_back(plan.pp / 2, "middle");
  if (plan.pp > 1) places.emplace_back(plan.pp - 1, "last");
  const engine::Grid grid(plan);
  const engine::MemoryOutcome memory = MemoryModel(slice.scenario).evaluate(plan);
  for (const auto& [stage, place] : places) {
    const engine::StageMemory& uses = memory.stages[static_cast<size_t>(stage)];
    slice.stages.push_back({stage, grid.with_coordinate(0, engine::Axis::pipeline, stage),
                            uses.total() - uses[MemoryUse::runtime],
                            step_work(slice.scenario, plan, stage).matmul_flops, place});
  }
}

double most_bytes(const Slice& slice) {
  double most = 0;
  for (const SliceStage& stage : slice.stages) most = std::max(most, stage.bytes);
  return most;
}

}  // namespace

std::optional<Slice> slice_of(const Scenario& scenario, const ParallelPlan& plan,
                              const SliceRoom& room, std::string& why_not) {
  std::optional<Slice> fastest;
  double least_bytes = 0;
  for (const Depth& depth : depths_of(plan, scenario.model.layers)) {
    Slice slice = cut(scenario, plan, depth);
    std::vector<engine::Violation> broken = scenario_violations(slice.scenario);
    if (broken.empty()) broken = violations(slice.scenario, slice.plan);
    if (!broken.empty()) {
      why_not = fmt::format("the built-in engine does not run {}: {}", engine::describe(slice.plan),
                            broken.front().message);
      return std::nullopt;
    }
    add_stages(slice);
    const double bytes = most_bytes(slice);
    if (least_bytes == 0 || bytes < least_bytes) least_bytes = bytes;
    if (bytes > room.bytes) continue;
    for (const SliceStage& stage : slice.stages)
      slice.seconds += stage.flops / room.flops_per_second + stage.bytes / room.bytes_per_second;
    if (slice.seconds <= room.seconds) return slice;
    if (!fastest || slice.seconds < fastest->seconds) fastest = std::move(slice);
  }
  if (!fastest)
    why_not = fmt::format("the smallest slice of {} needs {}, and {} are free here",
                          engine::describe(plan), engine::format_bytes(least_bytes),
                          engine::format_bytes(room.bytes));
  return fastest;
}

}  // namespace tuner
