// Tests of single rules, quick enough for the generators.
#include "tuner/space/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "engine/plan/partition.h"
#include "engine/plan/schedule.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;
using engine::Violation;

// What a sequence must be a multiple of: 2 · cp blocks so that the causal work is even, tp shares
// with SP, both together without halving a block.
int64_t sequence_factor(const ParallelPlan& plan) {
  const int64_t blocks = plan.cp > 1 ? 2 : 1;
  return plan.cp * std::lcm(blocks, plan.sp ? int64_t{plan.tp} : int64_t{1});
}

bool kv_heads_shared(const Scenario& scenario, int tp) {
  const int64_t kv = scenario.model.kv_heads;
  return kv % tp == 0 || (scenario.stack.kv_head_replication && tp % kv == 0);
}

int longest_chunk(const Scenario& scenario, const ParallelPlan& plan) {
  if (!layers_are_legal(scenario, plan)) return 0;
  const std::vector<int> shares = engine::layers_per_stage(plan, scenario.model.layers);
  return (*std::max_element(shares.begin(), shares.end()) + plan.vpp - 1) / plan.vpp;
}

ParallelPlan normalized(const Scenario& scenario, ParallelPlan plan) {
  if (plan.tp == 1) plan.sp = false;
  if (plan.dp == 1 && plan.cp == 1) plan.zero = 0;
  if (plan.recompute.mode == Recompute::Mode::selective &&
      scenario.workload.attention == engine::AttentionKind::flash)
    plan.recompute = {};
  const auto& shares = plan.layers_per_stage;
  if (!shares.empty() && static_cast<int>(shares.size()) == plan.pp &&
      std::all_of(shares.begin(), shares.end(), [&](int s) { return s == shares.front(); }) &&
      int64_t{shares.front()} * plan.pp == scenario.model.layers && shares.front() % plan.vpp == 0)
    plan.layers_per_stage.clear();
  if (plan.recompute.layers > 0 && plan.recompute.layers == longest_chunk(scenario, plan))
    plan.recompute.layers = 0;
  return plan;
}

const std::vector<int>& legal_zero(const Stack& stack, int pp) {
  return pp > 1 && stack.pipeline_parallel ? stack.zero_with_pipeline : stack.zero;
}

bool can_interleave(const Stack& stack, int pp) {
  return stack.interleaving && pp >= (stack.interleaving_needs_three_stages ? 3 : 2);
}

std::string_view first_axis_violation(const Scenario& scenario, const ParallelPlan& plan) {
  const engine::ModelSpec& model = scenario.model;
  if (plan.tp > 1 && !scenario.stack.tensor_parallel) return "AT0120";
  if (model.heads % plan.tp != 0) return "AT0102";
  if (!kv_heads_shared(scenario, plan.tp)) return "AT0103";
  if (model.ffn_hidden % plan.tp != 0) return "AT0107";
  if (plan.cp > 1 && scenario.workload.seq % (2 * plan.cp) != 0) return "AT0105";
  return {};
}

std::string_view sp_violation(const Scenario& scenario, const ParallelPlan& plan) {
  return plan.sp && scenario.workload.seq % sequence_factor(plan) != 0 ? "AT0106"
                                                                       : std::string_view{};
}

std::string_view micro_batch_violation(const Scenario& scenario, const ParallelPlan& plan) {
  const int64_t m = plan.micro_batches();
  if (plan.vpp > 1) {
    const bool legal = scenario.stack.interleaving_any_micro_batches
                           ? engine::interleave_group({plan.pp, plan.vpp, m}) > 0
                           : m % plan.pp == 0;
    return legal ? std::string_view{} : "AT0110";
  }
  return scenario.stack.pipeline_needs_full_batch && m < plan.pp ? "AT0111" : std::string_view{};
}

bool layers_are_legal(const Scenario& scenario, const ParallelPlan& plan) {
  const int64_t layers = scenario.model.layers;
  const auto& shares = plan.layers_per_stage;
  if (shares.empty()) return layers % (int64_t{plan.pp} * plan.vpp) == 0;
  if (static_cast<int>(shares.size()) != plan.pp ||
      std::accumulate(shares.begin(), shares.end(), int64_t{0}) != layers)
    return false;
  if (plan.pp > 2 && !scenario.stack.any_layers_per_stage &&
      !std::all_of(shares.begin() + 1, shares.end() - 1, [&](int s) { return s == shares[1]; }))
    return false;
  const bool even =
      std::all_of(shares.begin(), shares.end(), [&](int s) { return s == shares.front(); });
  if (!even && !scenario.stack.uneven_stages && !scenario.stack.any_layers_per_stage) return false;
  // Of an interleaved stage one chunk may be lighter, and none may fall below no layers at all.
  const int longest = *std::max_element(shares.begin(), shares.end());
  const int chunk = (longest + plan.vpp - 1) / plan.vpp;
  return std::all_of(shares.begin(), shares.end(), [&](int s) {
    if (plan.vpp == 1) return s >= 1;
    return (s + plan.vpp - 1) / plan.vpp == chunk && chunk * plan.vpp - s <= 1;
  });
}

std::vector<std::string> not_trained(const engine::ModelSpec& model) {
  std::vector<std::string> reasons;
  if (model.has_latent_attention()) reasons.emplace_back("multi-head latent attention");
  if (!model.is_dense()) reasons.emplace_back("mixture of experts");
  reasons.insert(reasons.end(), model.not_modelled.begin(), model.not_modelled.end());
  return reasons;
}

std::vector<Violation> scenario_violations(const Scenario& scenario) {
  const engine::ModelSpec& model = scenario.model;
  const engine::Workload& work = scenario.workload;
  const Stack& stack = scenario.stack;
  std::vector<Violation> found;
  if (const auto reasons = not_trained(model); !reasons.empty())
    found.push_back({"AT0301",
                     fmt::format("predictions do not cover {} yet: it uses {}", model.name,
                                 fmt::join(reasons, ", ")),
                     {}});
  if (model.positions > 0 && work.seq > model.positions)
    found.push_back({"AT0115",
                     fmt::format("sequence {} is longer than the {} positions of {}", work.seq,
                                 model.positions, model.name),
                     {fmt::format("seq {}", model.positions)}});
  auto names = [](const auto& list) {
    std::vector<std::string> texts;
    for (const auto& entry : list) texts.emplace_back(name_of(entry));
    return texts;
  };
  if (scenario.cluster.device.peak(work.precision) <= 0) {
    std::vector<std::string> near;
    for (const engine::Precision precision : stack.precisions)
      if (scenario.cluster.device.peak(precision) > 0) near.emplace_back(name_of(precision));
    found.push_back({"AT0129",
                     fmt::format("{} has no {} arithmetic", scenario.cluster.device.title,
                                 name_of(work.precision)),
                     near});
  }
  if (std::find(stack.precisions.begin(), stack.precisions.end(), work.precision) ==
      stack.precisions.end())
    found.push_back(
        {"AT0130",
         fmt::format("the stack {} does not train in {}", stack.name, name_of(work.precision)),
         names(stack.precisions)});
  if (std::find(stack.attention.begin(), stack.attention.end(), work.attention) ==
      stack.attention.end())
    found.push_back(
        {"AT0131",
         fmt::format("the stack {} has no {} attention", stack.name, name_of(work.attention)),
         names(stack.attention)});
  return found;
}

}  // namespace tuner
