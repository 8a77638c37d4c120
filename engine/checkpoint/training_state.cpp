// TrainingState as JSON.
#include "engine/checkpoint/training_state.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {

std::string training_state_text(const TrainingState& state) {
  const Json json = {{"schema", "autotune.training_state/1"},
                     {"step", state.step},
                     {"tokens", state.tokens},
                     {"job", job_to_json(state.job)}};
  return json.dump(2) + "\n";
}

TrainingState training_state_from(const std::string& text, const std::string& source) {
  const Json json = parse_json(text, source);
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  if (reader.text("schema") != "autotune.training_state/1")
    reader.problem("schema", "must be \"autotune.training_state/1\"");
  TrainingState state;
  state.step = reader.integer("step", {});
  state.tokens = reader.integer("tokens", {});
  const Json& job = reader.value("job");
  reader.finish();
  problems.throw_if_any();
  state.job = job_from_json(job, source + ": job");
  return state;
}

}  // namespace engine
