// What each family of Hugging Face models has that its config.json does not say.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/model_spec.h"

namespace engine {

// The defaults describe Llama, on which most families are built.
struct HfFamily {
  std::string_view type;
  NormKind norm = NormKind::rms_norm;
  PositionKind position = PositionKind::rotary;
  ActivationKind activation = ActivationKind::silu;  // when the file does not say
  bool gated = true;
  bool tied = false;  // when the file does not say
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool bias_keys = true;  // attention_bias and mlp_bias of the file count
  bool dropout = false;   // when the file does not say
  bool parallel = false;
  bool qk_norm = false;
  bool router_bias = false;
  bool windows_need_switch = false;  // sliding_window counts only with use_sliding_window
  int64_t window_period = 0;  // every so many-th layer has no window; 0 = all layers have one
  int norms = 2;
  double rotary_fraction = 1.0;
  // Class defaults that published files leave out; 0 = the file must say.
  int64_t head_dim = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t vocab = 0;
  std::string_view refused = "";  // why a ModelSpec cannot describe it
};

// The family of a model_type; null when unknown. Multimodal types answer with their text model.
const HfFamily* find_hf_family(std::string_view model_type);
// The family of a class name such as "LlamaForCausalLM"; null when unknown.
const HfFamily* find_hf_family_by_class(std::string_view architecture);

// The kind that a file calls "gelu_new", "silu", …; nothing when unknown.
std::optional<ActivationKind> find_hf_activation(std::string_view name);
std::vector<std::string> hf_activation_names();

}  // namespace engine
