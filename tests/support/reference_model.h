// The loss of a GPT-2- or Llama-shaped model, written out in double with plain loops: an oracle
// that shares no code with the engine.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"

namespace reference {

// Weights by the names of Hugging Face's checkpoints, matrices as [out, in].
using Weights = std::map<std::string, std::vector<float>>;

// Cross-entropy summed over the targets of one sequence, without dropout.
double loss(const engine::ModelSpec& model, const Weights& weights, const std::vector<int32_t>& ids,
            const std::vector<int32_t>& targets);

}  // namespace reference
