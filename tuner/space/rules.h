// The rules a plan must keep, as named constraints with codes (documented in codes.h).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"

namespace tuner {

// Options of training frameworks that touch the rules and are no part of a plan.
struct FrameworkOptions {
  bool distribute_saved_activations = false;
  bool tensor_overlap = false;  // --tp-comm-overlap
  bool offload_activations = false;
};

// The same plan with what has no effect switched off: SP at tp 1, selective recomputation under
// fused attention, sharding over a single rank, full:N that covers every layer, equal
// layers_per_stage.
engine::ParallelPlan normalized(const Scenario& scenario, engine::ParallelPlan plan);

// Every rule the plan breaks, each with the nearest legal values; empty = legal.
std::vector<engine::Violation> violations(const Scenario& scenario,
                                          const engine::ParallelPlan& plan,
                                          const FrameworkOptions& options = {});

// What a sequence must be a multiple of: 2 · cp blocks so that the causal work is even, tp shares
// with SP, both together without halving a block.
int64_t sequence_factor(const engine::ParallelPlan& plan);
// Layers of the longest chunk of a stage; 0 where the layers are not placed.
int longest_chunk(const Scenario& scenario, const engine::ParallelPlan& plan);
// Whether tp divides the KV heads, or the stack replicates them evenly.
bool kv_heads_shared(const Scenario& scenario, int tp);

// The quick tests of the generators. Each gives the code of the first broken rule of its kind,
// empty when there is none: of tp and cp alone, of SP, of the micro-batches (the layers being
// legal).
std::string_view first_axis_violation(const Scenario& scenario, const engine::ParallelPlan& plan);
std::string_view sp_violation(const Scenario& scenario, const engine::ParallelPlan& plan);
std::string_view micro_batch_violation(const Scenario& scenario, const engine::ParallelPlan& plan);
// ZeRO stages of a stack for `pp` stages, and whether chunks can take turns on them.
const std::vector<int>& legal_zero(const Stack& stack, int pp);
bool can_interleave(const Stack& stack, int pp);
bool layers_are_legal(const Scenario& scenario, const engine::ParallelPlan& plan);

// What predictions of training do not cover of the model; empty = they cover it. Serving is covered
// apart from ModelSpec::not_modelled.
std::vector<std::string> not_trained(const engine::ModelSpec& model);

// Problems of the scenario itself, whatever the plan: precision, attention, sequence length, a
// model that predictions do not cover.
std::vector<engine::Violation> scenario_violations(const Scenario& scenario);

}  // namespace tuner
