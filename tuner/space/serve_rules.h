// The rules a serving plan must keep, with the codes of training where the rule is the same.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/model/serve_plan.h"
#include "tuner/model/serve_scenario.h"

namespace tuner {

// The formats of the checkpoint, bf16 as fp16 where the device lacks it: what a plan has unless
// others are asked for. Nobody but the checkpoint makes the KV cache narrower than 16 bits.
ServeFormat checkpoint_weights(const ServeScenario& scenario);
ServeFormat checkpoint_kv(const ServeScenario& scenario, ServeFormat weights);

// Weights that the stack has, and that the device computes in or the stack widens to 16 bits there.
std::vector<ServeFormat> legal_weights(const ServeScenario& scenario);
// What the stack or the device lacks of these formats of weights and KV caches.
std::vector<engine::Violation> serve_format_violations(const ServeScenario& scenario,
                                                       const std::vector<ServeFormat>& weights,
                                                       const std::vector<ServeFormat>& kv);

// Problems of the scenario, whatever the plan: lengths, a model that is not covered or that the
// stack does not run, a stack that cannot batch as the workload asks.
std::vector<engine::Violation> serve_scenario_violations(const ServeScenario& scenario);

// Every rule the plan breaks apart from memory, each with the nearest values that keep it and break
// no other; empty = legal.
std::vector<engine::Violation> serve_violations(const ServeScenario& scenario,
                                                const ServePlan& plan);

// Whether tp divides what it must; the quick test of the search.
bool tensor_is_legal(const ServeScenario& scenario, int tp);

}  // namespace tuner
