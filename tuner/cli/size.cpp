// autotune size: how long a training takes, how many GPUs it needs, or how large a model can be.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/answers.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/search/size.h"

namespace tuner {
namespace {

// Which of model, GPUs and days is not given. Throws InputError unless it is just one.
SizeUnknown unknown_of(const Arguments& arguments) {
  const bool named = arguments.has("--model"), sized = arguments.has("--parameters");
  const bool model = named || sized, gpus = arguments.has("--gpus"), days = arguments.has("--days");
  std::vector<std::string> problems;
  if (named && sized)
    problems.emplace_back("--model and --parameters both say what is trained; give one");
  if (model && gpus && days)
    problems.emplace_back(
        "the model, --gpus and --days are all given, so nothing is left to answer; leave out "
        "--days "
        "for the time, --gpus for the number of GPUs, or --model for the size of the model");
  if (model + gpus + days < 2)
    problems.emplace_back(
        "two of the three must be given, for the third as the answer: --model (or --parameters), "
        "--gpus, --days");
  if (!problems.empty()) throw engine::InputError(problems);
  return !model ? SizeUnknown::parameters : !gpus ? SizeUnknown::gpus : SizeUnknown::days;
}

// A batch near the usual one that a number of GPUs with a factor like 5 can share: else hardly any
// plan would use all of them.
int64_t shared_batch(int64_t usual, int64_t gpus) {
  int64_t odd = gpus;
  while (odd % 2 == 0) odd /= 2;
  if (usual % odd == 0) return usual;
  const int64_t unit = gpus <= usual ? gpus : odd;
  return std::max<int64_t>(1, (usual + unit / 2) / unit) * unit;
}

ScenarioAnswer scenario_of_size(const Arguments& arguments, SizeUnknown unknown) {
  // Stands in for a model that is yet to be found; the shapes derived all have its defaults.
  constexpr auto kAnySize = "1b";
  const std::string model = unknown == SizeUnknown::parameters ? kAnySize
                            : arguments.has("--parameters")
                                ? fmt::format("{:.0f}", arguments.number("--parameters").value())
                                : arguments.text("--model").value();
  const int64_t gpus = arguments.integer("--gpus").value_or(1);
  ScenarioAnswer answer = scenario_of(arguments, model, gpus);
  if (unknown != SizeUnknown::parameters || arguments.has("--gbs")) return answer;
  int64_t& gbs = answer.scenario.workload.gbs;
  const int64_t usual = std::exchange(gbs, shared_batch(gbs, gpus));
  if (gbs != usual)
    answer.defaults.push_back(fmt::format("but global batch {}, which {} GPUs share", gbs, gpus));
  return answer;
}

std::string title_of(const Sizing& sizing) {
  if (!sizing.best) return "no plan fits";
  return fmt::format(
      "{} parameters, {} GPUs, {}",
      engine::format_count(static_cast<double>(engine::parameter_count(sizing.scenario.model))),
      engine::format_grouped(sizing.scenario.cluster.gpus),
      engine::format_seconds(sizing.days() * 86400));
}

int run_size(const Arguments& arguments) {
  const SizeUnknown unknown = unknown_of(arguments);
  const ScenarioAnswer asked = scenario_of_size(arguments, unknown);
  refuse_impossible(asked.scenario, {});
  Sizing sizing = size_training({unknown, asked.scenario, arguments.number("--days").value_or(0),
                                 arguments.number("--gpu-hour-price").value_or(0)});
  if (!asked.defaults.empty())
    sizing.assumptions.push_back(
        fmt::format("taken by default: {}", fmt::join(asked.defaults, ", ")));
  sizing.assumptions.emplace_back(
      "the training runs without a break: no failures, restarts or evaluation");
  const nlohmann::json answer = sizing_to_json(sizing);
  print_answer(answer, arguments);
  const auto [status, code] =
      !sizing.best            ? std::pair("nothing fits", engine::ExitCode::nothing_fits)
      : sizing.meets_deadline ? std::pair("found", engine::ExitCode::found)
                              : std::pair("target missed", engine::ExitCode::target_missed);
  store_answer(answer, arguments, sizing.scenario.model, sizing.scenario.cluster, "size",
               title_of(sizing), status);
  return static_cast<int>(code);
}

// Those of a scenario, of which here none is needed by itself.
std::vector<Option> size_options() {
  std::vector<Option> options = scenario_options();
  for (Option& option : options) option.required = false;
  const auto behind_model = options.begin() + 1;
  options.insert(behind_model, {{.name = "--parameters",
                                 .kind = ValueKind::count,
                                 .placeholder = "N",
                                 .help = "Size of the model, instead of --model",
                                 .low = 1e6,
                                 .high = 1e13},
                                {.name = "--days",
                                 .kind = ValueKind::number,
                                 .placeholder = "D",
                                 .help = "Days that the training may take",
                                 .low = 0.001,
                                 .high = 100'000}});
  options.push_back(price_option());
  options.push_back(json_option());
  options.push_back(database_option());
  return options;
}

}  // namespace

Command size_command() {
  return {.words = "size",
          .summary = "Answer how long, how many GPUs, or how large a model",
          .description =
              "Of the model, the GPUs and the days give two; the third is the answer. It follows "
              "from the predicted throughput of the best plan, which is searched for every model "
              "and number of GPUs that is looked at.\n\n"
              "For GPUs the answer is the fewest whole nodes that meet the days; for the model the "
              "largest in the proportions of GPT-3. When nothing meets the days, the nearest is "
              "told and the exit code is 4.",
          .examples = {{"size --model 175b --tokens 300B --gpus 1024", "How long?"},
                       {"size --model llama-3.1-70b --tokens 2T --days 60 --gpu h100-80gb",
                        "How many GPUs?"},
                       {"size --gpus 160 --days 5 --tokens 300B", "How large a model?"},
                       {"size --parameters 20b --tokens 400B --gpus 256 --gpu-hour-price 2.5",
                        "At what cost?"}},
          .options = size_options(),
          .run = run_size};
}

}  // namespace tuner
