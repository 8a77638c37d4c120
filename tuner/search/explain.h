// Sentences: how plans differ, why the best one wins, what would make one fit.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tuner/model/cost_model.h"
#include "tuner/search/recommendation.h"

namespace tuner {

// "matrix products", "the pipeline bubble": a part of the step within a sentence.
std::string_view plain_name(StepPart part);

// "tp 4 instead of 8, recompute selective instead of none": what `other` has instead of `plan`.
std::string difference(const engine::ParallelPlan& plan, const engine::ParallelPlan& other);

// Why the best plan wins, one sentence each: against the fastest plan with other settings of one
// choice at a time, with the parts of the step that decide.
std::vector<std::string> reasons(const Recommendation& recommendation);

// When nothing fits: what would make it fit.
std::vector<std::string> remedies(const Scenario& scenario, const Restrictions& restrictions,
                                  const SearchResult& search);

}  // namespace tuner
