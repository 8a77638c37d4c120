// Hugging Face's config.json: writing, and comparing.
#include "engine/checkpoint/hf_config_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/model_tensors.h"
#include "engine/plan/hf_config.h"

namespace engine {
namespace {

constexpr double kDropout = 0.1;  // when the model has dropout

const char* activation_name(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_tanh:
      return "gelu_new";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::silu:
      return "silu";
  }
  fail_expectation("an activation");
}

Json gpt2_config(const ModelSpec& m) {
  const double dropout = m.dropout ? kDropout : 0.0;
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"bos_token_id", nullptr},  // absent, readers would assume ids beyond a small vocabulary
          {"eos_token_id", nullptr},
          {"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_head", m.heads},
          {"n_inner", m.ffn_hidden},
          {"n_positions", m.positions},
          {"vocab_size", m.vocab},
          {"activation_function", activation_name(m.activation)},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"attn_pdrop", dropout},
          {"embd_pdrop", dropout},
          {"resid_pdrop", dropout},
          {"tie_word_embeddings", m.tied_embeddings}};
}

Json llama_config(const ModelSpec& m) {
  Json json = {{"model_type", "llama"},
               {"architectures", {"LlamaForCausalLM"}},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr},
               {"num_hidden_layers", m.layers},
               {"hidden_size", m.hidden},
               {"num_attention_heads", m.heads},
               {"num_key_value_heads", m.kv_heads},
               {"head_dim", m.head_dim},
               {"intermediate_size", m.ffn_hidden},
               {"max_position_embeddings", m.positions},
               {"vocab_size", m.vocab},
               {"hidden_act", activation_name(m.activation)},
               {"rms_norm_eps", m.norm_epsilon},
               {"rope_theta", m.rotary_base},
               {"attention_dropout", m.dropout ? kDropout : 0.0},
               {"tie_word_embeddings", m.tied_embeddings}};
  if (m.qkv_bias && !m.attention_out_bias) {
    json["model_type"] = "qwen2";
    json["architectures"] = {"Qwen2ForCausalLM"};
  } else if (m.sliding_window > 0) {
    json["model_type"] = "mistral";
    json["architectures"] = {"MistralForCausalLM"};
    json["sliding_window"] = m.sliding_window;
  } else {
    json["attention_bias"] = m.qkv_bias;
    json["mlp_bias"] = m.mlp_bias;
  }
  return json;
}

// Members of a ModelSpec that no arithmetic depends on, or that a run may choose.
bool may_differ(const std::string& key) {
  return key == "name" || key == "origin" || key == "dropout" || key == "default_seq" ||
         key == "default_gbs" || key == "not_modelled" || key == "weight_format" ||
         key == "kv_format";
}

bool same_model(const ModelSpec& a, const ModelSpec& b) {
  Json first, second;
  to_json(first, a);
  to_json(second, b);
  for (const auto& item : first.items())
    if (!may_differ(item.key()) && item.value() != second[item.key()]) return false;
  return true;
}

// A member, in the file itself or in the language model's part, with a value that changes the
// arithmetic.
void find_unknown_arithmetic(const Json& config, std::vector<std::string>& found) {
  const auto is = [&](const char* key, const Json& value) {
    const auto member = config.find(key);
    return member != config.end() && *member == value;
  };
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.find(key);
    if (rope == config.end() || !rope->is_object()) continue;
    for (const char* kind : {"rope_type", "type"})
      if (rope->contains(kind) && (*rope)[kind] != "default" && (*rope)[kind].is_string())
        found.push_back(fmt::format("scaled rotary positions ({} '{}')", key,
                                    (*rope)[kind].get<std::string>().substr(0, 40)));
  }
  if (config.contains("quantization_config") && !config["quantization_config"].is_null())
    found.emplace_back("quantized weights (quantization_config)");
  if (is("scale_attn_by_inverse_layer_idx", true))
    found.emplace_back("attention scaled by the layer (scale_attn_by_inverse_layer_idx)");
  if (is("scale_attn_weights", false))
    found.emplace_back("unscaled attention (scale_attn_weights)");
}

}  // namespace

std::optional<Json> hf_config_of(const ModelSpec& m) {
  ModelSpec again;
  const Json json = named_like_gpt2(m) ? gpt2_config(m) : llama_config(m);
  try {
    again = model_spec_from_hf_config(json, "config.json");
  } catch (const InputError&) {
    return std::nullopt;
  }
  // What a reader makes of the file decides whether it describes the model.
  if (!same_model(m, again)) return std::nullopt;
  return json;
}

std::vector<std::string> config_contradictions(const Json& config, const std::string& source,
                                               const ModelSpec& model) {
  std::vector<std::string> found, problems;
  find_unknown_arithmetic(config, found);
  for (const std::string& what : found)
    problems.push_back(
        fmt::format("{}: asks for {}, which the engine does not have", source, what));
  Json own, other;
  to_json(own, model);
  to_json(other, model_spec_from_hf_config(config, source));
  for (const auto& item : own.items()) {
    const bool chosen = item.key() == "positions" && model.position != PositionKind::learned;
    if (!chosen && !may_differ(item.key()) && item.value() != other[item.key()])
      problems.push_back(fmt::format("{}: {} is {} there and {} in the model to train", source,
                                     item.key(), other[item.key()].dump(), item.value().dump()));
  }
  return problems;
}

}  // namespace engine
