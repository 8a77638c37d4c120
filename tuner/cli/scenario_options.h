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

// What is taken in place of a default where no option says it; 0 and empty: nothing is known.
struct ScenarioBase {
  std::optional<engine::ModelSpec> model = {};
  std::optional<ClusterSpec> cluster = {};
  int64_t gpus = 0, gpus_per_node = 0;
  int64_t seq = 0, gbs = 0;
  std::optional<engine::Precision> precision = {};
  std::optional<engine::AttentionKind> attention = {};
  std::string stack = {};
};

struct ScenarioAnswer {
  Scenario scenario;
  std::vector<std::string> defaults;  // what was not given and which value was taken
};

// Throws InputError with every problem of the values. The cluster of `base`, where given, is taken
// unless --gpu names one.
ScenarioAnswer scenario_of(const Arguments& arguments, const ScenarioBase& base = {});
// The same for another model, named as --model would, on another number of GPUs.
ScenarioAnswer scenario_of(const Arguments& arguments, const std::string& model, int64_t gpus,
                           const ScenarioBase& base = {});
// What no plan can mend is bad input: throws InputError with all of it.
void refuse_impossible(const Scenario& scenario, const Restrictions& restrictions);
Restrictions restrictions_of(const Arguments& arguments);
// What is not given is that of `base`; without one, degrees are 1 and ZeRO is the least stage of
// the stack. dp follows from the number of GPUs.
engine::ParallelPlan plan_of(const Arguments& arguments, const Scenario& scenario,
                             const std::optional<engine::ParallelPlan>& base = std::nullopt);

}  // namespace tuner
