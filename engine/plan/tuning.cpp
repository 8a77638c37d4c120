// JSON of what is tuned.
#include "engine/plan/tuning.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {

Json tuning_to_json(const TuningSpec& spec) {
  Json tasks = Json::array();
  for (const TuningTask& task : spec.tasks)
    tasks.push_back({{"name", task.name},
                     {"examples_path", task.examples_path},
                     {"prompt_path", task.prompt_path}});
  return {{"source", kPromptSourceNames[static_cast<size_t>(spec.source)]},
          {"virtual_tokens", spec.virtual_tokens},
          {"tokenizer", spec.tokenizer},
          {"tasks", std::move(tasks)}};
}

TuningSpec tuning_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  TuningSpec spec;
  spec.source = static_cast<PromptSource>(
      reader.choice("source", {kPromptSourceNames.begin(), kPromptSourceNames.end()}, 0));
  spec.virtual_tokens = reader.integer("virtual_tokens", {1, 1 << 20}, spec.virtual_tokens);
  spec.tokenizer = reader.text("tokenizer", spec.tokenizer);
  for (ObjectReader& task : reader.objects("tasks")) {
    spec.tasks.push_back({task.text("name"), task.text("examples_path"), task.text("prompt_path")});
    task.finish();
  }
  if (spec.tasks.empty()) reader.problem("tasks", "must name at least one task");
  reader.finish();
  problems.throw_if_any();
  return spec;
}

}  // namespace engine
