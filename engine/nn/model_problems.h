// What the layers of this engine cannot run, and why, in sentences.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"

namespace engine {

// Parts of the model that no layer here has, and sizes that do not fit together.
std::vector<std::string> model_problems(const ModelSpec& model);

// Where tp does not divide the model's matrices and heads, or the stages are no partition of its
// layers.
std::vector<std::string> division_problems(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace engine
