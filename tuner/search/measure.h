// Measure: chooses which predicted plans to measure, measures them, and ranks all by what is known.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tuner/profile/profiler.h"
#include "tuner/search/recommendation.h"

namespace tuner {

struct MeasureProgress {
  int done = 0, total = 0;  // plans of the current round
  int failures = 0;
  double best_seconds = 0;  // 0 = none yet
  double spent_seconds = 0;
  double budget_seconds = 0;
  std::string now;  // the plan in progress
};

struct MeasureOptions {
  int64_t most_plans = 8;
  double budget_seconds = 120;
  int at_once = 1;  // trials side by side
  const std::atomic<int>* stop = nullptr;
  std::function<void(const MeasureProgress&)> progress = {};
};

// The job that measures a plan of the scenario: synthetic tokens, the memory of a rank as limit.
engine::Job job_of(const Scenario& scenario, const engine::ParallelPlan& plan);

// Wall time of the first trial of a plan with such a step, starting included.
double trial_seconds(double step_seconds);

// The plan predicted fastest and the baseline first; then, one by one, the plan that could be the
// fastest after the correction by what was measured so far, until none has a real chance. The
// faster half is measured again with twice the samples, and again, so that slow plans cost little
// (successive halving: Jamieson and Talwalkar 2016). Afterwards `plans` are ranked by measured
// times and, where there are none, by corrected predictions; plans that failed come last, and the
// fastest of the measured ones first of all.
MeasureAccount measure_plans(const Scenario& scenario, Profiler& profiler,
                             const MeasureOptions& options, std::vector<PlanAnswer>& plans,
                             std::optional<PlanAnswer>& baseline);

}  // namespace tuner
