// A training on several numbers of GPUs.
#include "tuner/cli/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/search/sweep.h"

namespace tuner {

using engine::ExitCode;

int run_sweep(const Arguments& arguments, const std::vector<int64_t>& gpus) {
  constexpr size_t kMostNumbers = 64;
  if (gpus.size() > kMostNumbers)
    throw engine::InputError(fmt::format("--gpus lists {} numbers; give at most {} at a time",
                                         gpus.size(), kMostNumbers));
  for (const char* option : {"--device", "--measure", "--launcher", "--compare-with"})
    if (arguments.has(option))
      throw engine::InputError(fmt::format(
          "{} is for one number of GPUs; give --gpus one number, or leave it out", option));
  const Restrictions restrictions = restrictions_of(arguments);
  std::vector<Scenario> scenarios;
  std::vector<std::string> defaults;
  for (const int64_t count : gpus) {
    ScenarioAnswer asked = scenario_of(arguments, arguments.text("--model").value(), count);
    refuse_impossible(asked.scenario, restrictions);
    scenarios.push_back(std::move(asked.scenario));
    defaults = std::move(asked.defaults);
  }
  Sweep sweep = sweep_gpus(std::move(scenarios), restrictions);
  sweep.gpu_hour_price = arguments.number("--gpu-hour-price").value_or(0);
  if (!defaults.empty())
    sweep.assumptions.push_back(fmt::format("taken by default: {}", fmt::join(defaults, ", ")));
  sweep.assumptions.emplace_back(
      "the training runs without a break: no failures, restarts or evaluation");
  const nlohmann::json answer = sweep_to_json(sweep);
  print_answer(answer, arguments);
  const Scenario& largest = sweep.points.back().scenario;
  const std::string title =
      sweep.fits() ? fmt::format("{} GPUs", fmt::join(gpus, ", ")) : std::string("no plan fits");
  store_answer(answer, arguments, largest.model, largest.cluster, "train", title,
               sweep.fits() ? "found" : "nothing fits");
  return static_cast<int>(sweep.fits() ? ExitCode::found : ExitCode::nothing_fits);
}

}  // namespace tuner
