// ModelSpec as JSON: one list of members serves writing and strict reading.
#include <array>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/model_spec.h"

namespace engine {
namespace {

const std::vector<std::string> kNorms = {"layer_norm", "rms_norm"};
const std::vector<std::string> kPositions = {"learned", "rotary", "alibi", "none"};
const std::vector<std::string> kActivations = {"gelu", "gelu_tanh", "relu", "silu"};
const std::vector<std::string>& names(NormKind) { return kNorms; }
const std::vector<std::string>& names(PositionKind) { return kPositions; }
const std::vector<std::string>& names(ActivationKind) { return kActivations; }

template <class Visit, class Moe>
void visit_experts(Visit& visit, Moe& moe) {
  visit("experts", moe.experts);
  visit("per_token", moe.per_token);
  visit("ffn_hidden", moe.ffn_hidden);
  visit("shared_hidden", moe.shared_hidden);
  visit("dense_layers", moe.dense_layers);
  visit("shared_gate", moe.shared_gate);
  visit("router_bias", moe.router_bias);
  visit("expert_biases", moe.expert_biases);
}

template <class Visit, class Mla>
void visit_latent(Visit& visit, Mla& mla) {
  visit("q_rank", mla.q_rank);
  visit("kv_rank", mla.kv_rank);
  visit("nope_dim", mla.nope_dim);
  visit("rope_dim", mla.rope_dim);
  visit("value_dim", mla.value_dim);
}

template <class Visit, class Model>
void visit_model(Visit& visit, Model& model) {
  visit("name", model.name);
  visit("origin", model.origin);
  visit("layers", model.layers);
  visit("hidden", model.hidden);
  visit("heads", model.heads);
  visit("kv_heads", model.kv_heads);
  visit("head_dim", model.head_dim);
  visit("ffn_hidden", model.ffn_hidden);
  visit("vocab", model.vocab);
  visit("positions", model.positions);
  visit("norm", model.norm);
  visit("activation", model.activation);
  visit("position", model.position);
  visit("gated_mlp", model.gated_mlp);
  visit("tied_embeddings", model.tied_embeddings);
  visit("qkv_bias", model.qkv_bias);
  visit("attention_out_bias", model.attention_out_bias);
  visit("mlp_bias", model.mlp_bias);
  visit("head_bias", model.head_bias);
  visit("dropout", model.dropout);
  visit("qk_norm", model.qk_norm);
  visit("parallel_block", model.parallel_block);
  visit("embedding_norm", model.embedding_norm);
  visit("final_norm", model.final_norm);
  visit("attention_sinks", model.attention_sinks);
  visit("norms_per_layer", model.norms_per_layer);
  visit("extra_position_rows", model.extra_position_rows);
  visit("embedding_width", model.embedding_width);
  visit("sliding_window", model.sliding_window);
  visit("windowed_layers", model.windowed_layers);
  visit("norm_epsilon", model.norm_epsilon);
  visit("rotary_base", model.rotary_base);
  visit("rotary_fraction", model.rotary_fraction);
  visit("weight_format", model.weight_format);
  visit("kv_format", model.kv_format);
  visit("not_modelled", model.not_modelled);
  visit("default_seq", model.default_seq);
  visit("default_gbs", model.default_gbs);
}

struct Writer {
  Json& json;

  template <class T>
  void operator()(const char* key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json[key] = names(value)[static_cast<size_t>(value)];
    } else {
      json[key] = value;
    }
  }
};

// Absent members keep the default of ModelSpec; sizes without a sensible one are zero there, which
// shape_problems reports.
struct Reader {
  ObjectReader& object;

  void operator()(const char* key, int64_t& value) {
    constexpr IntegerRange kAny{std::numeric_limits<int64_t>::min()};
    value = object.integer(key, kAny, value);
  }
  void operator()(const char* key, int& value) {
    value = static_cast<int>(object.integer(key, {0, 1000}, value));
  }
  void operator()(const char* key, double& value) { value = object.number(key, {0, 1e15}, value); }
  void operator()(const char* key, bool& value) { value = object.flag(key, value); }
  void operator()(const char* key, std::string& value) { value = object.text(key, value); }
  void operator()(const char* key, std::vector<std::string>& value) {
    const Json& list = object.value(key);
    if (list.is_null()) return;
    bool texts = list.is_array();
    if (texts)
      for (const Json& item : list) texts = texts && item.is_string();
    if (texts) {
      value = list.get<std::vector<std::string>>();
    } else {
      object.problem(key, "must be a list of texts");
    }
  }
  template <class T>
  requires std::is_enum_v<T>
  void operator()(const char* key, T& value) {
    value = static_cast<T>(object.choice(key, names(value), static_cast<int>(value)));
  }
};

}  // namespace

void to_json(Json& json, const ModelSpec& model) {
  json = Json::object();
  Writer write{json};
  visit_model(write, model);
  Writer write_experts{json["moe"]};
  visit_experts(write_experts, model.moe);
  Writer write_latent{json["mla"]};
  visit_latent(write_latent, model.mla);
}

ModelSpec model_spec_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ModelSpec model;
  ObjectReader object(json, "", problems);
  Reader read{object};
  visit_model(read, model);

  ObjectReader moe = object.object("moe");
  Reader read_experts{moe};
  visit_experts(read_experts, model.moe);
  moe.finish();

  ObjectReader mla = object.object("mla");
  Reader read_latent{mla};
  visit_latent(read_latent, model.mla);
  mla.finish();

  object.finish();
  if (problems.empty())
    for (const std::string& problem : shape_problems(model)) problems.add("", problem);
  problems.throw_if_any();
  return model;
}

}  // namespace engine
