// The tensors of a model as Hugging Face's checkpoints name and shape them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"

namespace engine {

struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;

  bool operator==(const ModelTensor&) const = default;
};

// Models with learned positions and no gate are named and laid out like GPT-2 (matrices [in, out];
// query, key and value side by side in one), all others like Llama (matrices [out, in]). In the
// order of the model; a tied head is not stored. Throws InputError for a model with parts that have
// no name there, such as experts.
std::vector<ModelTensor> model_tensors(const ModelSpec& model);

bool named_like_gpt2(const ModelSpec& model);

// A tensor that checkpoints may hold beside these and that is computed, never read: masks, rotary
// frequencies; and the copy of a tied head.
bool is_ignored_tensor(const ModelSpec& model, const std::string& name);

// The name without the prefix of the whole model ("transformer.", "model."), which checkpoints of
// the bare decoder leave out.
std::string bare_tensor_name(const ModelSpec& model, const std::string& name);

}  // namespace engine
