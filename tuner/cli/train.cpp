// autotune train: the fastest plan for a model on a number of GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/search/recommendation.h"

namespace tuner {
namespace {

std::string title_of(const Recommendation& r) {
  if (!r.best) return "no plan fits";
  return fmt::format("{}, {} a step", engine::describe(r.best->plan),
                     engine::format_seconds(r.best->step_seconds()));
}

int run_train(const Arguments& arguments) {
  ScenarioAnswer asked = scenario_of(arguments);
  const Restrictions restrictions = restrictions_of(arguments);
  refuse_impossible(asked.scenario, restrictions);
  Recommendation r = recommend(asked.scenario, restrictions);
  if (!asked.defaults.empty())
    r.assumptions.insert(r.assumptions.begin(),
                         fmt::format("taken by default: {}", fmt::join(asked.defaults, ", ")));
  const nlohmann::json answer = recommendation_to_json(r);
  print_answer(answer, arguments);
  store_answer(answer, arguments, r.scenario.model, r.scenario.cluster, "train", title_of(r),
               r.best ? "found" : "nothing fits");
  return static_cast<int>(r.best ? engine::ExitCode::found : engine::ExitCode::nothing_fits);
}

}  // namespace

Command train_command() {
  Command command{
      .words = "train",
      .summary = "Find the fastest plan to train a model on a number of GPUs",
      .description =
          "Predicts every legal plan (tensor, pipeline, data and context parallelism, "
          "interleaving, "
          "sequence parallelism, micro-batch, recomputation, optimizer sharding), drops those that "
          "do not fit, and recommends the fastest, with its reasons and its error band. The "
          "options "
          "of a plan restrict the search and take lists.",
      .examples = {{"train --model 175b --gpus 1024", "GPT-3 175B on 1,024 A100s"},
                   {"train --model llama-3.1-70b --gpus 64 --gpu h100-80gb", "Llama 70B on H100s"},
                   {"train --model ./config.json --gpus 8 --gpu a100-40gb --json",
                    "A model of your own"},
                   {"train --model 175b --gpus 1024 --tp 4,8 --no-sp --recompute none,full",
                    "Only such plans"}},
      .options = scenario_options(),
      .run = run_train};
  for (Option& option : restriction_options()) command.options.push_back(std::move(option));
  command.options.push_back(json_option());
  command.options.push_back(database_option());
  return command;
}

}  // namespace tuner
