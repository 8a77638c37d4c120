// Finding a model by what the user typed: a preset, a parameter count, or a config.json.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"

namespace tuner {

// A preset name ("llama-3.1-70b"), a size of GPT-3's family ("175b"), any count ("42b": a shape is
// derived), or the path of a Hugging Face config.json. Throws InputError with "did you mean".
engine::ModelSpec find_model(const std::string& text);

std::vector<std::string> model_names();

// A GPT shape of about `parameters`: the standard shapes' ratio of depth to width, heads of 128 (64
// in small models), layers rich in divisors. The closest count wins; within 5 %, see the tests.
engine::ModelSpec derive_gpt(double parameters);

}  // namespace tuner
