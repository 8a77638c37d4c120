// autotune estimate train: time and memory of one given plan.
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/plan_file.h"
#include "tuner/search/recommendation.h"

namespace tuner {
namespace {

int run_estimate(const Arguments& arguments) {
  const PlanQuestion question = plan_question_of(arguments);
  const PlanAnswer answer = predict_plan(question.asked.scenario, question.plan);
  print_answer(estimate_to_json(question.asked.scenario, answer), arguments);
  return static_cast<int>(answer.predicted.fits ? engine::ExitCode::found
                                                : engine::ExitCode::nothing_fits);
}

}  // namespace

Command estimate_train_command() {
  Command command{
      .words = "estimate train",
      .summary = "Predict time and memory of one plan",
      .description =
          "Degrees that are not given are 1; dp follows from the number of GPUs, and ZeRO is the "
          "least stage of the stack.",
      .examples = {{"estimate train --model 175b --gpus 1024 --tp 8 --pp 16 --vpp 6 --sp --zero 1 "
                    "--recompute selective",
                    "GPT-3 175B as published in 2022"},
                   {"estimate train --model llama-2-7b --gpus 8 --gpu h100-80gb --zero 3 --stack "
                    "pytorch-fsdp",
                    "Fully sharded"},
                   {"estimate train --model 22b --gpus 8 --tp 8 --mbs 4 --gbs 4 --json", "As JSON"},
                   {"estimate train --from train.sh --gpu h100-80gb", "A script of Megatron-LM"}},
      .options = plan_question_options(),
      .run = run_estimate};
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
