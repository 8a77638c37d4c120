// Answers and plans of tests: what a stored run holds, and legal plans drawn at random. To be
// included after nlohmann/json.hpp.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/plan/outcome.h"
#include "tests/support/scenarios.h"
#include "tuner/exchange/export.h"
#include "tuner/space/search_space.h"

namespace exchange_test {

inline nlohmann::json answer_for(const tuner::Scenario& s, const engine::ParallelPlan& plan) {
  nlohmann::json model;
  to_json(model, s.model);
  model["parameters"] = engine::parameter_count(s.model);
  engine::Outcome outcome;
  outcome.step_seconds = 20;
  outcome.interval_seconds = {19, 21};
  return {{"schema", "autotune.train/1"},
          {"model", model},
          {"cluster", tuner::cluster_to_json(s.cluster)},
          {"stack", {{"name", s.stack.name}}},
          {"workload", engine::workload_to_json(s.workload)},
          {"best",
           {{"plan", engine::plan_to_json(plan, s.model.layers)},
            {"text", engine::describe(plan)},
            {"predicted", engine::outcome_to_json(outcome)},
            {"measured", nullptr}}}};
}

inline tuner::Exported exported(const tuner::Scenario& s, const engine::ParallelPlan& plan,
                                const std::string& target, bool slurm = false) {
  return tuner::export_answer(
      answer_for(s, plan),
      {.target = target, .slurm = slurm, .provenance = {"autotune of a test"}});
}

// `count` of all legal plans, the same ones in every run.
inline std::vector<engine::ParallelPlan> random_plans(const tuner::Scenario& s, size_t count) {
  std::mt19937_64 random(20260822);
  std::vector<engine::ParallelPlan> kept;
  uint64_t seen = 0;
  tuner::SearchSpace(s, {}).for_each([](const auto&) {},
                                     [&](const engine::ParallelPlan& plan) {
                                       ++seen;
                                       if (kept.size() < count)
                                         kept.push_back(plan);
                                       else if (const uint64_t at = random() % seen; at < count)
                                         kept[at] = plan;
                                     });
  return kept;
}

}  // namespace exchange_test
