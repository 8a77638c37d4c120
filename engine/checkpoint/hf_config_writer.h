// Writes a model as a Hugging Face config.json, and compares one with a model.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"

namespace engine {

// The config.json with which other programs load the model: of type gpt2, llama, qwen2 or mistral.
// Nothing when no such type describes the model.
std::optional<nlohmann::json> hf_config_of(const ModelSpec& model);

// Where a checkpoint's config.json contradicts the model, or asks for arithmetic that the engine
// does not have (scaled rotary positions, quantized weights): one sentence each.
std::vector<std::string> config_contradictions(const nlohmann::json& config,
                                               const std::string& source, const ModelSpec& model);

}  // namespace engine
