// autotune check train: every rule that a plan breaks, with the nearest legal values and plans.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/plan_file.h"
#include "tuner/search/explain.h"
#include "tuner/search/recommendation.h"
#include "tuner/space/rules.h"

namespace tuner {
namespace {

constexpr int kNearestPlans = 3;

// What the file uses, and what is given beside it.
FrameworkOptions framework_options_of(const Arguments& arguments, const FrameworkOptions& file) {
  return {file.distribute_saved_activations || arguments.flag("--distribute-saved-activations"),
          file.tensor_overlap || arguments.flag("--tp-comm-overlap"),
          file.offload_activations || arguments.flag("--offload-activations")};
}

int run_check(const Arguments& arguments) {
  const PlanQuestion question = plan_question_of(arguments);
  const Scenario& scenario = question.asked.scenario;
  const CheckAnswer answer = check_plan(
      scenario, question.plan, framework_options_of(arguments, question.options), kNearestPlans);
  print_answer(check_to_json(scenario, answer), arguments);
  return static_cast<int>(answer.checked.predicted.violations.empty()
                              ? engine::ExitCode::found
                              : engine::ExitCode::nothing_fits);
}

Option flag(const std::string& name, const std::string& help) {
  return {.name = name, .kind = ValueKind::flag, .help = help};
}

}  // namespace

Command check_train_command() {
  Command command{
      .words = "check train",
      .summary = "Name every rule that a plan breaks, and the nearest plans that work",
      .description =
          "Degrees that are not given are 1; dp follows from the number of GPUs, and ZeRO is the "
          "least stage of the stack. "
          "`autotune explain CODE` documents a rule.",
      .examples =
          {{"check train --model llama-3.1-405b --gpus 128 --gpu h100-80gb --tp 8 --pp 8 --vpp 2",
            "Layers that do not divide"},
           {"check train --model 175b --gpus 64 --tp 8 --pp 8 --gbs 64", "Does it fit?"},
           {"check train --from train.sh --gpu h100-80gb", "A script of Megatron-LM"}},
      .options = plan_question_options(),
      .run = run_check};
  command.options.push_back(
      flag("--distribute-saved-activations", "The plan uses Megatron's option of this name"));
  command.options.push_back(
      flag("--tp-comm-overlap", "The plan uses Megatron's option of this name"));
  command.options.push_back(
      flag("--offload-activations", "The plan offloads activations to the host"));
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
