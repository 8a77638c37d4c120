// Serve measure: chooses which predicted serving plans to measure, and measures them.
#pragma once
#include <string>

#include "tuner/profile/profiler.h"
#include "tuner/search/measure.h"
#include "tuner/search/serve_recommendation.h"

namespace tuner {

// The job that measures a plan: made-up prompts under the workload's arrivals, with a KV cache for
// a whole batch.
engine::Job serving_job_of(const ServeScenario& scenario, const ServePlan& plan);

// One by one the plan that would be the best answer if predictions erred like those of the plans
// measured before (of the same degrees first), until none that is left would be, or the options
// end it. Failures are answers, too.
ServeMeasureAccount measure_serving(const ServeScenario& scenario, const ServeBudgets& budgets,
                                    Profiler& profiler, const MeasureOptions& options,
                                    std::vector<ServeCandidate>& candidates);

// What trials timed, best first.
std::vector<ServeCandidate> proved_first(const ServeBudgets& budgets,
                                         const std::vector<ServeCandidate>& all);

}  // namespace tuner
