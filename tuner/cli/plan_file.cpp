// Plans in files: what they say in place of options.
#include "tuner/cli/plan_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/exchange/text.h"
#include "tuner/search/answer_json.h"

namespace tuner {

Option plan_file_option(const std::string& name, const std::string& help) {
  return {.name = name, .kind = ValueKind::text, .placeholder = "FILE", .help = help};
}

std::optional<Imported> plan_file_of(const Arguments& arguments, const std::string& option) {
  const auto path = arguments.text(option);
  if (!path) return std::nullopt;
  Imported file = import_file(*path);
  for (const std::string& remark : file.remarks)
    print_message(fmt::format("{}: {}\n", one_line(*path), one_line(remark)));
  return file;
}

ScenarioBase base_of(Imported& file, int64_t gpus) {
  if (gpus > 0) file.use_gpus(static_cast<int>(gpus));
  ScenarioBase base;
  base.model = file.model;
  base.gpus = file.gpus;
  base.gpus_per_node = file.gpus_per_node;
  base.seq = file.seq;
  if (file.has_batch || (file.accumulation > 0 && file.gpus > 0)) base.gbs = file.plan.gbs;
  base.precision = file.precision;
  base.attention = file.attention;
  base.stack = file.stack;
  return base;
}

std::vector<Option> plan_question_options() {
  std::vector<Option> options = scenario_options();
  for (Option& option : options)
    if (option.name == "--model" || option.name == "--gpus") {
      option.required = false;
      option.default_text = "that of --from";
    }
  for (Option& option : plan_options()) options.push_back(std::move(option));
  options.push_back(plan_file_option(
      "--from",
      "Take what is not given from a Megatron-LM script, DeepSpeed JSON, NeMo 1.x YAML or "
      "torchtitan TOML"));
  return options;
}

namespace {

void require(bool given, const char* option, const std::optional<Imported>& file,
             std::vector<std::string>& problems) {
  if (given) return;
  problems.push_back(
      file ? fmt::format("{} is missing: {} does not say it", option, one_line(file->source))
           : fmt::format("{} is missing; give it, or a file with --from", option));
}

}  // namespace

PlanQuestion plan_question_of(const Arguments& arguments) {
  std::optional<Imported> file = plan_file_of(arguments, "--from");
  ScenarioBase base;
  if (file) base = base_of(*file, arguments.integer("--gpus").value_or(0));
  std::vector<std::string> problems;
  require(arguments.has("--model") || base.model, "--model", file, problems);
  require(arguments.has("--gpus") || base.gpus > 0, "--gpus", file, problems);
  if (!problems.empty()) throw engine::InputError(problems);
  PlanQuestion question{scenario_of(arguments, base), {}, {}};
  question.plan =
      plan_of(arguments, question.asked.scenario, file ? std::optional(file->plan) : std::nullopt);
  if (file) question.options = file->options;
  return question;
}

void add_comparison(nlohmann::json& answer, const Recommendation& r, const Imported& file) {
  engine::ParallelPlan plan = file.plan;
  plan.gbs = r.scenario.workload.gbs;
  const PlanAnswer compared = predict_plan(r.scenario, normalized(r.scenario, plan));
  nlohmann::json& json = answer["compared"];
  const bool legal = compared.predicted.violations.empty();
  if (legal) {
    add_answer(json, r.scenario, compared);
  } else {
    json = {{"plan", nullptr},
            {"text", engine::describe(compared.plan)},
            {"predicted", engine::outcome_to_json(compared.predicted)},
            {"measured", nullptr}};
  }
  json["file"] = file.source;
  json["format"] = file.format;
  const bool both = legal && r.best && r.best->step_seconds() > 0;
  json["speedup"] = both ? nlohmann::json(compared.step_seconds() / r.best->step_seconds())
                         : nlohmann::json(nullptr);
}

}  // namespace tuner
