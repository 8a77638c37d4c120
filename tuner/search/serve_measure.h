// Serve measure: chooses which predicted serving plans to measure, and measures them.
#pragma once
#include <vector>

#include "tuner/search/race.h"
#include "tuner/search/serve_recommendation.h"

namespace tuner {

// The job that measures a plan: made-up prompts under the workload's arrivals, with a KV cache for
// a whole batch.
engine::Job serving_job_of(const ServeScenario& scenario, const ServePlan& plan);

// A race of the candidates in which the best of every degrees take part. Sets `measured` and
// `excess` of those that were tried; failures are answers, too.
ServeMeasureAccount measure_serving(const ServeScenario& scenario, const ServeBudgets& budgets,
                                    Profiler& profiler, const MeasureOptions& options,
                                    std::vector<ServeCandidate>& candidates);

// What a race would measure.
struct PlannedServeTrials {
  std::vector<ServeCandidate> certain;  // whatever the times are, in this order
  int64_t others = 0;                   // plans that may be tried after them
  int64_t most_others = 0;              // of these, at most
};
PlannedServeTrials planned_trials(const ServeScenario& scenario, const ServeBudgets& budgets,
                                  int64_t most_plans, std::vector<ServeCandidate>& candidates);

// What trials timed, best first.
std::vector<ServeCandidate> proved_first(const ServeBudgets& budgets,
                                         const std::vector<ServeCandidate>& all);

}  // namespace tuner
