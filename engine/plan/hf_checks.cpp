// Says what a config.json is when it is not that of a decoder-only transformer.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/plan/hf_reading.h"

namespace engine {
namespace {

[[noreturn]] void refuse(ObjectReader& in, std::string_view what) {
  throw InputError(fmt::format("{}: {}", in.problems().source(), what));
}

// Layers that are not attention show in members of their own, whatever the type is called.
std::string other_layers(ObjectReader& in) {
  for (const std::string& key : in.keys())
    for (const std::string_view mark :
         {"linear_attn", "linear_num", "linear_conv", "mamba_", "ssm_", "hybrid_override_pattern",
          "attn_type_list", "attn_layer_period"})
      if (key.starts_with(mark) && in.has(key))
        return fmt::format("{} speaks of layers other than attention", printable(key));
  const Json& kinds = in.value("layer_types");
  if (kinds.is_array())
    for (const Json& kind : kinds)
      if (kind != "full_attention" && kind != "sliding_attention" && kind != "chunked_attention")
        return "layer_types has layers other than full, sliding or chunked attention";
  return "";
}

}  // namespace

std::string printable(const std::string& text) {
  std::string shown = text.substr(0, 64);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

void refuse_other_files(ObjectReader& in) {
  if (in.has("peft_type") || in.has("base_model_name_or_path"))
    refuse(in, fmt::format("is the configuration of an adapter (LoRA); give the config.json of its "
                           "base model {}",
                           printable(in.text("base_model_name_or_path", ""))));
  if (in.has("_class_name"))
    refuse(in, "is the configuration of a diffusion pipeline, not of a language model");
}

void refuse_other_architectures(ObjectReader& in, const HfFamily& family) {
  std::string why(family.refused);
  if (in.flag("is_encoder_decoder", false)) why = "encoder-decoder models are not decoders";
  if (why.empty()) why = other_layers(in);
  if (!why.empty())
    refuse(in, fmt::format("cannot be described as a decoder-only transformer: {}; choose another "
                           "model",
                           why));
}

}  // namespace engine
