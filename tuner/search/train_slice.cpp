// Slices of plans of training.
#include <algorithm>

#include "engine/plan/grid.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"
#include "tuner/search/slice.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::MemoryUse;
using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;

namespace {

// What the engine counts exactly; the others come and go within a bound.
constexpr MemoryUse kExact[] = {MemoryUse::parameter, MemoryUse::gradient, MemoryUse::optimizer,
                                MemoryUse::activation, MemoryUse::recompute};

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

// The scenario of a slice: its layers, its batch, the stack of the engine. `plan` becomes its plan.
Scenario cut(Scenario scenario, const Depth& depth, bool bf16, ParallelPlan& plan) {
  scenario.stack = find_stack("autotune");
  scenario.model.layers = int64_t{depth.pp} * depth.vpp * depth.layers;
  engine::Workload& work = scenario.workload;
  if (work.precision != Precision::f32) work.precision = bf16 ? Precision::bf16 : Precision::f32;
  plan.pp = depth.pp;
  plan.vpp = depth.vpp;
  plan.layers_per_stage.clear();
  if (plan.recompute.layers > 0)
    plan.recompute.layers = std::max(1, std::min(plan.recompute.layers, depth.layers - 1));
  work.gbs = plan.gbs = depth.micro_batches * plan.mbs * plan.dp;
  scenario.cluster.gpus = plan.world();
  plan = normalized(scenario, plan);
  return scenario;
}

// Seconds of a step that the stage computes, as predicted for the slice on the cluster's device.
double predicted_compute(const Scenario& scenario, const ParallelPlan& plan, int stage) {
  const CostModel model(scenario);
  const MicroBatchCost cost = model.micro_batch_cost(plan);
  const auto layers = static_cast<double>(scenario.model.layers) / plan.pp;
  const LayerCost& layer = cost.layer;
  double recompute = 0;
  if (plan.recompute.mode == Recompute::Mode::selective)
    recompute = layer.recompute_selective;
  else if (plan.recompute.mode == Recompute::Mode::full)
    recompute = layer.recompute_full;
  double seconds =
      layers * (layer.gemm + layer.attention + layer.elementwise + layer.launch + recompute);
  if (stage == 0) seconds += cost.embedding_forward + cost.embedding_backward;
  if (stage == plan.pp - 1) seconds += cost.head_forward + cost.head_backward;
  return seconds * static_cast<double>(plan.micro_batches());
}

std::vector<SingleRank> ranks_of(const Scenario& scenario, const ParallelPlan& plan) {
  const engine::Grid grid(plan);
  const engine::MemoryOutcome memory = MemoryModel(scenario).evaluate(plan);
  std::vector<SingleRank> ranks;
  for (const auto& [stage, place] : standing_stages(plan.pp)) {
    const engine::StageMemory& uses = memory.stages[static_cast<size_t>(stage)];
    SingleRank rank{.stage = stage,
                    .place = place,
                    .job = {},
                    .bytes = uses.total() - uses[MemoryUse::runtime],
                    .seconds = predicted_compute(scenario, plan, stage),
                    .memory = {},
                    .work = step_work(scenario, plan, stage)};
    for (const MemoryUse use : kExact) rank.memory.emplace_back(use, uses[use]);
    rank.job.model = scenario.model;
    rank.job.plan = plan;
    rank.job.workload = scenario.workload;
    rank.job.workload.tokens = 1;
    rank.job.warmup_steps = 0;
    rank.job.phantom_rank = grid.with_coordinate(0, engine::Axis::pipeline, stage);
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace

std::optional<Slice> slice_of(const Scenario& scenario, const ParallelPlan& plan,
                              const SliceRoom& room, std::string& why_not) {
  const std::vector<Depth> depths = depths_of(plan, scenario.model.layers);
  const CutSlice make = [&](size_t place, std::string& reason) -> std::optional<Slice> {
    ParallelPlan small = plan;
    const Scenario of_slice = cut(scenario, depths[place], room.multiplies_bf16, small);
    std::vector<engine::Violation> broken = scenario_violations(of_slice);
    if (broken.empty()) broken = violations(of_slice, small);
    if (is_refused(small, broken, reason)) return std::nullopt;
    return Slice{plan,
                 scenario.model.layers,
                 small,
                 describe(small),
                 of_slice.model.layers,
                 ranks_of(of_slice, small)};
  };
  return choose_slice(depths.size(), make, room, why_not);
}

}  // namespace tuner
