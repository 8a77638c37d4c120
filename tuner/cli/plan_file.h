// --from and --compare-with: plans in the files of training frameworks.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/cli/scenario_options.h"
#include "tuner/exchange/import.h"
#include "tuner/search/recommendation.h"

namespace tuner {

Option plan_file_option(const std::string& name, const std::string& help);

// The file that the option names, read; nothing when it is not given. Remarks on what a plan says
// in another way go to standard error.
std::optional<Imported> plan_file_of(const Arguments& arguments, const std::string& option);

// What the file says, in place of the defaults, on `gpus` GPUs (0: those of the file).
ScenarioBase base_of(Imported& file, int64_t gpus);

// Options of a question about one plan, given by options or by a file.
std::vector<Option> plan_question_options();
struct PlanQuestion {
  ScenarioAnswer asked;
  engine::ParallelPlan plan;
  FrameworkOptions options;  // of the file
};
// Throws engine::InputError where neither says the model or the number of GPUs.
PlanQuestion plan_question_of(const Arguments& arguments);

// Adds "compared" to an answer of autotune.train/1: the file's plan, predicted for the question.
void add_comparison(nlohmann::json& answer, const Recommendation& recommendation,
                    const Imported& file);

}  // namespace tuner
