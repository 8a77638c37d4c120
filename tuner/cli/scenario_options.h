// The options that say what is trained, on what, and how: shared by train, estimate and check.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tuner/cli/command.h"
#include "tuner/model/scenario.h"
#include "tuner/space/search_space.h"

namespace tuner {

// --model --gpus --gpu --stack --gpus-per-node: the model and the machines, of training and
// serving.
std::vector<Option> machine_options(const std::string& gpus_help, const std::string& stack_help,
                                    const std::string& stack_default,
                                    std::vector<std::string> (*stacks)());
// --model --gpus --gpu --stack --gpus-per-node --seq --gbs --tokens --precision --attention
std::vector<Option> scenario_options();
// --tp --pp … as lists that restrict a search.
std::vector<Option> restriction_options();
// --tp --pp … of one plan.
std::vector<Option> plan_options();

struct ScenarioAnswer {
  Scenario scenario;
  std::vector<std::string> defaults;  // what was not given and which value was taken
};

// Throws InputError with every problem of the values. `cluster`, where given, is taken unless --gpu
// names one.
ScenarioAnswer scenario_of(const Arguments& arguments,
                           const std::optional<ClusterSpec>& cluster = std::nullopt);
// The same for another model, named as --model would, on another number of GPUs.
ScenarioAnswer scenario_of(const Arguments& arguments, const std::string& model, int64_t gpus,
                           const std::optional<ClusterSpec>& cluster = std::nullopt);
// What no plan can mend is bad input: throws InputError with all of it.
void refuse_impossible(const Scenario& scenario, const Restrictions& restrictions);
Restrictions restrictions_of(const Arguments& arguments);
// Degrees that are not given are 1, dp follows from the number of GPUs, and ZeRO is the least stage
// of the stack.
engine::ParallelPlan plan_of(const Arguments& arguments, const Scenario& scenario);

}  // namespace tuner
