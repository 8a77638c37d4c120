// Reads Hugging Face config.json files into a ModelSpec.
#include "engine/plan/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/hf_families.h"

namespace engine {
namespace {

using Keys = std::initializer_list<const char*>;

constexpr Keys kHiddenKeys = {"hidden_size", "n_embd", "d_model", "n_embed"};
constexpr Keys kLayerKeys = {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers",
                             "n_layers"};
constexpr Keys kHeadKeys = {"num_attention_heads", "n_head", "num_heads", "n_heads"};
constexpr Keys kKvHeadKeys = {"num_key_value_heads", "num_kv_heads"};
constexpr Keys kHeadDimKeys = {"head_dim", "attention_head_dim", "d_kv", "kv_channels"};
constexpr Keys kFfnKeys = {
    "intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff"};
constexpr Keys kVocabKeys = {"vocab_size", "padded_vocab_size"};
constexpr Keys kPositionKeys = {"max_position_embeddings", "n_positions", "n_ctx", "seq_length",
                                "max_sequence_length",     "max_seq_len"};
constexpr Keys kActivationKeys = {"hidden_act", "activation_function", "hidden_activation",
                                  "mlp_hidden_act", "activation"};
constexpr Keys kEpsilonKeys = {"rms_norm_eps",      "layer_norm_eps", "layer_norm_epsilon",
                               "layernorm_epsilon", "norm_epsilon",   "norm_eps"};
constexpr Keys kDropoutKeys = {"attention_dropout", "attn_pdrop", "hidden_dropout",
                               "resid_pdrop",       "dropout",    "residual_dropout"};
constexpr Keys kExpertKeys = {"num_experts", "num_local_experts", "n_routed_experts"};
constexpr Keys kExpertsPerTokenKeys = {"num_experts_per_tok", "experts_per_token", "top_k_experts",
                                       "moe_topk"};
constexpr Keys kExpertFfnKeys = {"moe_intermediate_size", "intermediate_size"};

constexpr int64_t kAssumedPositions = 2048;

class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& source)
      : problems_(source), root_(json, "", problems_), in_(text_model(json)) {
    problems_.throw_if_any();
    model_.origin = source;
  }

  ModelSpec read() {
    refuse_other_files();
    find_family();
    refuse_other_architectures();
    read_sizes();
    read_attention();
    read_blocks();
    read_positions();
    read_latent_attention();
    read_experts();
    apply_exceptions();
    if (problems_.empty())
      for (const std::string& problem : shape_problems(model_)) problems_.add("", problem);
    problems_.throw_if_any();
    return model_;
  }

 private:
  // Multimodal files keep the language model in a member of its own.
  ObjectReader text_model(const Json& json) {
    return json.is_object() && root_.has("text_config") ? root_.object("text_config") : root_;
  }

  [[noreturn]] void refuse(std::string_view what) {
    throw InputError(fmt::format("{}: {}", problems_.source(), what));
  }
  void note(std::string_view what) { model_.origin += fmt::format("; {}", what); }
  bool is(std::string_view type) const { return family_->type == type; }

  // The first of the names that the file has.
  std::optional<std::string> first_of(Keys keys) const {
    for (const char* key : keys)
      if (in_.has(key)) return key;
    return std::nullopt;
  }
  int64_t integer(Keys keys, IntegerRange range, std::optional<int64_t> fallback = std::nullopt) {
    return in_.integer(first_of(keys).value_or(*keys.begin()), range, fallback);
  }

  void refuse_other_files() {
    if (in_.has("peft_type") || in_.has("base_model_name_or_path"))
      refuse(fmt::format(
          "is the configuration of an adapter (LoRA); give the config.json of its base model{}",
          in_.has("base_model_name_or_path") ? " " + in_.text("base_model_name_or_path", "") : ""));
    if (in_.has("_class_name"))
      refuse("is the configuration of a diffusion pipeline, not of a language model");
  }

  void find_family() {
    std::string type = in_.text("model_type", "");
    if (type.empty()) type = root_.text("model_type", "");
    family_ = find_hf_family(type);
    if (family_) return;

    const Json& architectures = root_.value("architectures");
    if (architectures.is_array() && !architectures.empty() && architectures[0].is_string())
      family_ = find_hf_family_by_class(architectures[0].get<std::string>());
    const std::string unknown =
        type.empty() ? "no model_type" : fmt::format("unknown model_type '{}'", type.substr(0, 64));
    if (family_) {
      note(fmt::format("{}, read as {} by its architectures", unknown, family_->type));
    } else {
      family_ = find_hf_family("llama");
      note(
          fmt::format("{}, read by the general rule of Llama: check the parameter count", unknown));
    }
  }

  void refuse_other_architectures() {
    std::string why(family_->refused);
    if (in_.flag("is_encoder_decoder", false)) why = "encoder-decoder models are not decoders";
    if (why.empty()) why = other_layers();
    if (!why.empty())
      refuse(
          fmt::format("cannot be described as a decoder-only transformer: {}; choose another "
                      "model",
                      why));
  }

  // Layers that are not attention show in members of their own, whatever the type is called.
  std::string other_layers() {
    for (const std::string& key : in_.keys())
      for (const std::string_view mark :
           {"linear_attn", "linear_num", "linear_conv", "mamba_", "ssm_", "hybrid_override_pattern",
            "attn_type_list", "attn_layer_period"})
        if (key.starts_with(mark) && in_.has(key))
          return fmt::format("{} speaks of layers other than attention", key);
    const Json& kinds = in_.value("layer_types");
    if (kinds.is_array())
      for (const Json& kind : kinds)
        if (kind != "full_attention" && kind != "sliding_attention" && kind != "chunked_attention")
          return "layer_types has layers other than full, sliding or chunked attention";
    return "";
  }

  void read_sizes() {
    const HfFamily& family = *family_;
    const auto default_or_missing = [](int64_t value) {
      return value > 0 ? std::optional<int64_t>(value) : std::nullopt;
    };
    model_.layers = integer(kLayerKeys, {1, 10'000});
    model_.hidden = integer(kHiddenKeys, {1, 1'000'000});
    model_.heads = integer(kHeadKeys, {1, 10'000}, default_or_missing(family.heads));
    model_.kv_heads = read_kv_heads();
    model_.vocab = integer(kVocabKeys, {1, 100'000'000}, default_or_missing(family.vocab));
    model_.head_dim = read_head_dim();
    // Gated MLPs have no customary width; a mixture may have no dense MLP at all.
    const bool mixture = first_of(kExpertKeys).has_value();
    std::optional<int64_t> usual_ffn;
    if (!family.gated) usual_ffn = 4 * model_.hidden;
    if (mixture) usual_ffn = 0;
    model_.ffn_hidden = integer(kFfnKeys, {1, 10'000'000}, usual_ffn);
  }

  int64_t read_kv_heads() {
    const IntegerRange range{1, 10'000};
    if (is("falcon") && !in_.flag("new_decoder_architecture", false))
      return in_.flag("multi_query", true) ? 1 : model_.heads;
    if (is("gpt_bigcode")) return in_.flag("multi_query", true) ? 1 : model_.heads;
    if (in_.flag("multi_query_attention", false)) return integer({"multi_query_group_num"}, range);
    const int64_t usual =
        family_->kv_heads > 0 && !first_of(kHeadKeys) ? family_->kv_heads : model_.heads;
    return integer(kKvHeadKeys, range, usual);
  }

  int64_t read_head_dim() {
    if (const auto key = first_of(kHeadDimKeys)) return in_.integer(*key, {1, 100'000});
    if (family_->head_dim > 0) return family_->head_dim;
    if (problems_.empty() && model_.hidden % model_.heads != 0)
      problems_.add("", fmt::format("hidden size {} is no multiple of the {} heads; add head_dim",
                                    model_.hidden, model_.heads));
    return model_.hidden / model_.heads;
  }

  void read_attention() {
    const HfFamily& family = *family_;
    model_.qkv_bias = family.qkv_bias;
    model_.attention_out_bias = family.out_bias;
    model_.mlp_bias = family.mlp_bias;
    model_.head_bias = family.head_bias;
    model_.qk_norm = family.qk_norm;
    if (family.bias_keys) {
      if (in_.has("attention_bias"))
        model_.qkv_bias = model_.attention_out_bias = in_.flag("attention_bias");
      if (in_.has("mlp_bias")) model_.mlp_bias = in_.flag("mlp_bias");
      for (const char* key : {"bias", "use_bias", "enable_bias", "add_bias_linear"})
        if (in_.has(key))
          model_.qkv_bias = model_.attention_out_bias = model_.mlp_bias = in_.flag(key);
    }
    for (const char* key : {"qkv_bias", "add_qkv_bias"})
      if (in_.has(key)) model_.qkv_bias = in_.flag(key);
    model_.sliding_window = read_sliding_window();
  }

  int64_t read_sliding_window() {
    const int64_t window =
        integer({"sliding_window", "attention_chunk_size"}, {0, 1'000'000'000}, 0);
    if (!in_.flag("use_sliding_window", !family_->windows_need_switch)) return 0;
    const Json& kinds = in_.value("layer_types");
    if (kinds.is_array() && !kinds.empty() &&
        std::all_of(kinds.begin(), kinds.end(),
                    [](const Json& kind) { return kind == "full_attention"; }))
      return 0;
    return window;
  }

  void read_blocks() {
    const HfFamily& family = *family_;
    model_.norm = family.norm;
    model_.norms_per_layer = family.norms;
    model_.gated_mlp = family.gated;
    model_.parallel_block = family.parallel;
    model_.activation = read_activation();
    const std::string epsilon = first_of(kEpsilonKeys).value_or("rms_norm_eps");
    model_.norm_epsilon = in_.number(epsilon, {0, 1}, 1e-5);
    ObjectReader& tie = in_.has("tie_word_embeddings") ? in_ : root_;
    model_.tied_embeddings = tie.flag("tie_word_embeddings", family.tied);
    model_.dropout = read_dropout();
  }

  ActivationKind read_activation() {
    const auto key = first_of(kActivationKeys);
    const std::string name = key ? in_.text(*key) : "";
    if (name.empty()) return family_->activation;
    const auto kind = find_hf_activation(name);
    if (!kind)
      in_.problem(*key, unknown_name("activation", name, hf_activation_names(),
                                     "known are gelu, gelu_new, relu and silu"));
    return kind.value_or(family_->activation);
  }

  bool read_dropout() {
    if (!first_of(kDropoutKeys)) return family_->dropout;
    double largest = 0;
    for (const char* key : kDropoutKeys) largest = std::max(largest, in_.number(key, {0, 1}, 0.0));
    return largest > 0;
  }

  void read_positions() {
    model_.position = family_->position;
    if (in_.flag("alibi", false)) model_.position = PositionKind::alibi;
    std::optional<int64_t> usual;
    if (model_.position != PositionKind::learned && !first_of(kPositionKeys)) {
      usual = kAssumedPositions;
      note(fmt::format("no longest sequence given, {} assumed", kAssumedPositions));
    }
    model_.positions = integer(kPositionKeys, {1, 1'000'000'000}, usual);
    if (model_.position == PositionKind::rotary) read_rotary();
  }

  // Newer files gather the members of rotary positions in an object, some by kind of layer.
  void read_rotary() {
    ObjectReader rope = in_.has("rope_parameters") ? in_.object("rope_parameters") : in_;
    if (rope.has("full_attention")) rope = rope.object("full_attention");
    const NumberRange bases{1, 1e15};
    model_.rotary_base =
        rope.number("rope_theta", bases, in_.number("rotary_emb_base", bases, 1e4));
    double fraction = in_.number("rotary_pct", {0, 1}, family_->rotary_fraction);
    fraction = in_.number("partial_rotary_factor", {0, 1}, fraction);
    model_.rotary_fraction = rope.number("partial_rotary_factor", {0, 1}, fraction);
    if (is("gptj") && in_.has("rotary_dim") && model_.head_dim > 0)
      model_.rotary_fraction =
          static_cast<double>(in_.integer("rotary_dim", {0, model_.head_dim})) /
          static_cast<double>(model_.head_dim);
  }

  void read_latent_attention() {
    if (!in_.has("kv_lora_rank")) return;
    LatentAttentionSpec& mla = model_.mla;
    mla.kv_rank = in_.integer("kv_lora_rank", {1, 100'000});
    mla.q_rank = in_.integer("q_lora_rank", {0, 100'000}, 0);
    mla.nope_dim = in_.integer("qk_nope_head_dim", {1, 10'000});
    mla.rope_dim = in_.integer("qk_rope_head_dim", {1, 10'000});
    mla.value_dim = in_.integer("v_head_dim", {1, 10'000});
    // Some files give the rotary part alone as head_dim; queries and keys have both.
    model_.head_dim = mla.nope_dim + mla.rope_dim;
    model_.kv_heads = model_.heads;
    model_.not_modelled.push_back("multi-head latent attention");
  }

  void read_experts() {
    const int64_t experts = integer(kExpertKeys, {0, 100'000}, 0);
    if (experts == 0) return;
    ExpertSpec& moe = model_.moe;
    moe.experts = experts;
    moe.per_token = integer(kExpertsPerTokenKeys, {1, experts});
    moe.ffn_hidden = integer(kExpertFfnKeys, {1, 10'000'000});
    moe.shared_hidden = in_.integer("n_shared_experts", {0, 1'000}, 0) * moe.ffn_hidden;
    if (in_.has("shared_expert_intermediate_size")) {
      moe.shared_hidden = in_.integer("shared_expert_intermediate_size", {0, 10'000'000});
      moe.shared_gate = moe.shared_hidden > 0;
    }
    moe.router_bias = family_->router_bias;
    if (in_.has("topk_method")) moe.router_bias = in_.text("topk_method") == "noaux_tc";
    moe.dense_layers = count_dense_layers();
    model_.not_modelled.push_back("mixture of experts");
  }

  // Layers with a dense MLP, by whichever of the conventions the file uses.
  int64_t count_dense_layers() {
    const int64_t first = in_.integer("first_k_dense_replace", {0, model_.layers}, 0);
    const bool by_list = in_.value("moe_layer_freq").is_array();
    const IntegerRange steps{1, 10'000};
    const int64_t frequency = by_list ? 1 : in_.integer("moe_layer_freq", steps, 1);
    const int64_t step = integer({"decoder_sparse_step", "interleave_moe_layer_step"}, steps, 1);
    std::vector<bool> dense(static_cast<size_t>(model_.layers), false);
    for (const int64_t layer : in_.integers("mlp_only_layers", {0, 10'000}))
      if (layer < model_.layers) dense[static_cast<size_t>(layer)] = true;
    const auto listed = by_list ? in_.integers("moe_layer_freq", {0, 1}) : std::vector<int64_t>();
    for (size_t layer = 0; layer < std::min(dense.size(), listed.size()); ++layer)
      if (listed[layer] == 0) dense[layer] = true;
    for (int64_t layer = 0; layer < model_.layers; ++layer)
      if (layer < first || layer % frequency != 0 || (layer + 1) % step != 0)
        dense[static_cast<size_t>(layer)] = true;
    return std::count(dense.begin(), dense.end(), true);
  }

  // What single families have beside the common pattern.
  void apply_exceptions() {
    if (is("opt")) apply_opt();
    if (is("falcon")) apply_falcon();
    if (is("bloom")) model_.embedding_norm = true;
    if (is("gpt_neox")) model_.parallel_block = in_.flag("use_parallel_residual", true);
    if (is("gpt_oss")) model_.attention_sinks = model_.moe.expert_biases = true;
    if (is("llama4_text")) model_.moe.shared_hidden = model_.moe.ffn_hidden;
    if (is("phi") && in_.flag("qk_layernorm", false))
      in_.problem("qk_layernorm", "queries and keys with a LayerNorm cannot be described");
    if (in_.has("index_n_heads"))
      model_.not_modelled.push_back("sparse attention with an indexer (its weights not counted)");
  }

  void apply_opt() {
    model_.extra_position_rows = 2;
    const int64_t width = in_.integer("word_embed_proj_dim", {1, 1'000'000}, model_.hidden);
    if (width != model_.hidden) {
      model_.embedding_width = width;
      model_.not_modelled.push_back("embeddings narrower than the hidden size");
    }
    const bool before = in_.flag("do_layer_norm_before", true);
    model_.final_norm = before && !in_.flag("_remove_final_layer_norm", false);
    if (!before) model_.not_modelled.push_back("norms behind each branch");
  }

  void apply_falcon() {
    const bool grouped = in_.flag("new_decoder_architecture", false);
    model_.parallel_block = grouped || in_.flag("parallel_attn", true);
    const int64_t norms = in_.integer("num_ln_in_parallel_attn", {1, 2}, grouped ? 2 : 1);
    model_.norms_per_layer = model_.parallel_block ? static_cast<int>(norms) : 2;
  }

  Problems problems_;
  ObjectReader root_;
  ObjectReader in_;
  const HfFamily* family_ = nullptr;
  ModelSpec model_;
};

}  // namespace

ModelSpec model_spec_from_hf_config(const Json& json, const std::string& source) {
  return ConfigReader(json, source).read();
}

}  // namespace engine
