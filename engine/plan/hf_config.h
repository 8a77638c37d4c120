// Reads Hugging Face config.json files into a ModelSpec.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/model_spec.h"

namespace engine {

// `source` names the file in errors and in the ModelSpec's origin. What predictions do not cover is
// counted and listed in not_modelled. Throws InputError with every problem of the file.
ModelSpec model_spec_from_hf_config(const nlohmann::json& json, const std::string& source);

}  // namespace engine
