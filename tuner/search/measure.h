// Measure: chooses which predicted plans to measure, measures them, and ranks all by what is known.
#pragma once
#include <optional>
#include <vector>

#include "tuner/search/race.h"
#include "tuner/search/recommendation.h"

namespace tuner {

// The job that measures a plan of the scenario: synthetic tokens, the memory of a rank as limit.
engine::Job job_of(const Scenario& scenario, const engine::ParallelPlan& plan);

// Wall time of the first trial of a plan with such a step, starting included.
double trial_seconds(double step_seconds);

// A race of the plans, in their order, and the baseline. Afterwards `plans` are ranked by measured
// times and, where there are none, by corrected predictions; plans that failed come last, and the
// fastest of the measured ones first of all.
MeasureAccount measure_plans(const Scenario& scenario, Profiler& profiler,
                             const MeasureOptions& options, std::vector<PlanAnswer>& plans,
                             std::optional<PlanAnswer>& baseline);

}  // namespace tuner
