// The options that say what is served, on what, to whom, and how well: shared by infer, estimate
// and check.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tuner/cli/command.h"
#include "tuner/search/serve_search.h"

namespace tuner {

// --model --gpus --gpu --stack --gpus-per-node --input --output --concurrency --rate and the
// budgets
std::vector<Option> serve_scenario_options();
// --tp --pp … as lists that restrict a search.
std::vector<Option> serve_restriction_options();
// --tp --pp … of one plan.
std::vector<Option> serve_plan_options();

struct ServeQuestion {
  ServeScenario scenario;
  ServeBudgets budgets;
  double gpu_hour_price = 0;
  std::vector<std::string> defaults;  // what was not given and which value was taken
};

// Throws InputError with every problem of the values. A static batch restricted to one sequence is
// an isolated request. With `host` that machine is the cluster, and this engine the stack.
ServeQuestion serve_question_of(const Arguments& arguments, bool batch_is_one,
                                const std::optional<ClusterSpec>& host = {});
ServeRestrictions serve_restrictions_of(const Arguments& arguments);
// Degrees that are not given are 1, formats are the checkpoint's.
ServePlan serve_plan_of(const Arguments& arguments, const ServeScenario& scenario);

}  // namespace tuner
