// Recommendation: the answer to `autotune train`, with its reasons.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/model/pipeline_simulation.h"
#include "tuner/model/scenario.h"
#include "tuner/search/confirmation.h"
#include "tuner/search/race_account.h"
#include "tuner/search/search.h"
#include "tuner/space/rules.h"

namespace tuner {

// A plan with what is known of it.
struct PlanAnswer {
  engine::ParallelPlan plan;
  engine::Outcome predicted;
  std::optional<engine::Outcome> measured;

  // Whether a measured time is known: of a complete trial, or of one that was stopped as too slow.
  bool is_timed() const {
    return measured && measured->step_seconds > 0 &&
           (measured->status == engine::OutcomeStatus::ok ||
            measured->status == engine::OutcomeStatus::interrupted);
  }
  bool failed() const { return measured && !is_timed(); }
  double step_seconds() const {
    return is_timed() ? measured->step_seconds : predicted.step_seconds;
  }
};

struct RunnerUp {
  PlanAnswer answer;
  double slower = 0;              // step time over the best one's, minus 1
  double probability_faster = 0;  // that it beats the best one, from the intervals
  std::string difference;         // "tp 4 instead of 8, recompute selective instead of none"
};

// What the empirical grids of NVIDIA's tool would have tried.
struct GridComparison {
  std::string name;
  std::string origin;
  int64_t plans = 0;  // it would have tried
  int64_t legal = 0;  // of these
  int64_t fits = 0;
  std::optional<PlanAnswer> best;  // the fastest of those that fit, predicted
};

// One plan that was measured, beside what was predicted before anything was.
struct PlanMeasurement {
  engine::ParallelPlan plan;
  double predicted_seconds = 0;
  double predicted_bytes = 0;  // at the peak
  engine::Outcome outcome;
  std::vector<int64_t> trials;  // in the store
  bool recalled = false;        // all of them were there before
};

// What was measured for an answer.
struct MeasureAccount {
  std::vector<PlanMeasurement> plans;  // in the order they were first measured
  RaceAccount race;
  std::string environment;  // hash of the fingerprint
  double budget_seconds = 0;
  // Median factor by which predictions of plans that were not measured are corrected.
  double correction = 1;
};

struct Recommendation {
  Scenario scenario;
  Restrictions restrictions;
  SearchResult search;             // finalists are moved out
  int64_t simulated = 0;           // plans timed by event simulation
  std::optional<PlanAnswer> best;  // absent: nothing fits
  // Of the best plan; absent without a pipeline, and where ranks share cores and so do not keep to
  // the schedule.
  std::optional<PipelineTimes> pipeline;
  std::vector<RunnerUp> runners_up;    // the fastest of other kinds, fastest first
  std::optional<PlanAnswer> baseline;  // what people ran in 2021; absent where none fits
  GridComparison grid;
  std::vector<std::string> reasons;  // why the best one wins, one sentence each
  // When nothing fits: what would make it fit, one sentence each.
  std::vector<std::string> remedies;
  std::vector<std::string> assumptions;  // defaults that were taken and what is not modelled
  double gpu_hour_price = 0;             // of one GPU for one hour; 0 = not told
  std::optional<MeasureAccount> measurement;
  std::optional<Confirmation> confirmation;  // of the best plan, by single ranks of it

  double speedup_over_baseline() const;  // 0 without a baseline
  double days_to_train() const;          // 0 without a best plan
};

// Days that the whole training takes in steps of `step_seconds`.
double training_days(const engine::Workload& work, double step_seconds);

// Measures some of the predicted plans (fastest first) and the baseline, and ranks the plans anew.
using Measure =
    std::function<MeasureAccount(std::vector<PlanAnswer>&, std::optional<PlanAnswer>& baseline)>;

// Predicts all plans and recommends; what is measured decides where `measure` is given.
Recommendation recommend(const Scenario& scenario, const Restrictions& restrictions,
                         const Measure& measure = {});

// The plan that recommend() picks of what a search found; nullopt where nothing fits.
std::optional<PlanAnswer> fastest_plan(const Scenario& scenario, const SearchResult& search);

// One plan, predicted: violations, step, memory, whether it fits.
PlanAnswer predict_plan(const Scenario& scenario, const engine::ParallelPlan& plan);

// A plan with every rule it breaks (AT0201 when it does not fit), and legal plans near it.
struct CheckAnswer {
  PlanAnswer checked;
  std::vector<PlanAnswer> nearest;  // that fit; empty when the plan is sound
};
CheckAnswer check_plan(const Scenario& scenario, const engine::ParallelPlan& plan,
                       const FrameworkOptions& options, int nearest);

// The plan people ran in 2021 (full recomputation, no SP, vpp 1, ZeRO 0 or the least that the stack
// has, mbs 1, tp the largest power of two in the node that divides the heads, the smallest pp that
// then fits); nullopt where none fits.
std::optional<engine::ParallelPlan> baseline_plan(const Scenario& scenario);

// autotune.train/1.
nlohmann::json recommendation_to_json(const Recommendation& recommendation);
// autotune.estimate/1, with the inputs it was asked for.
nlohmann::json estimate_to_json(const Scenario& scenario, const PlanAnswer& answer);
// autotune.check/1: the estimate, and the nearest plans with their cost.
nlohmann::json check_to_json(const Scenario& scenario, const CheckAnswer& answer);

}  // namespace tuner
