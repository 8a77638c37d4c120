// Reads Hugging Face config.json files into a ModelSpec.
#include "engine/plan/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/errors.h"
#include "engine/plan/hf_reading.h"

namespace engine {
namespace {

constexpr HfKeys kHiddenKeys = {"hidden_size", "n_embd", "d_model", "n_embed"};
constexpr HfKeys kLayerKeys = {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers",
                               "n_layers"};
constexpr HfKeys kHeadKeys = {"num_attention_heads", "n_head", "num_heads", "n_heads"};
constexpr HfKeys kKvHeadKeys = {"num_key_value_heads", "num_kv_heads"};
constexpr HfKeys kHeadDimKeys = {"head_dim", "attention_head_dim", "d_kv", "kv_channels"};
constexpr HfKeys kFfnKeys = {
    "intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff"};
constexpr HfKeys kVocabKeys = {"vocab_size", "padded_vocab_size"};
constexpr HfKeys kPositionKeys = {"max_position_embeddings", "n_positions", "n_ctx", "seq_length",
                                  "max_sequence_length",     "max_seq_len"};
constexpr HfKeys kActivationKeys = {"hidden_act", "activation_function", "hidden_activation",
                                    "mlp_hidden_act", "activation"};
constexpr HfKeys kEpsilonKeys = {"rms_norm_eps",      "layer_norm_eps", "layer_norm_epsilon",
                                 "layernorm_epsilon", "norm_epsilon",   "norm_eps"};
constexpr HfKeys kDropoutKeys = {"attention_dropout", "attn_pdrop", "hidden_dropout",
                                 "resid_pdrop",       "dropout",    "residual_dropout"};

constexpr int64_t kAssumedPositions = 2048;

class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& source)
      : problems_(source), root_(json, "", problems_), in_(text_model(json)) {
    problems_.throw_if_any();
    model_.origin = source;
    if (root_.has("text_config")) note("its text model alone");
  }

  ModelSpec read() {
    refuse_other_files(in_);
    find_family();
    refuse_other_architectures(in_, *family_);
    read_sizes();
    read_attention();
    read_blocks();
    read_positions();
    read_latent_attention();
    model_.moe = read_hf_experts(in_, *family_, model_.layers);
    read_hf_formats(in_, model_);
    read_hf_formats(root_, model_);  // a model with several parts quantises them together
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

  void note(std::string_view what) { model_.origin += fmt::format("; {}", what); }
  bool is(std::string_view type) const { return family_->type == type; }

  int64_t integer(HfKeys keys, IntegerRange range, std::optional<int64_t> fallback = std::nullopt) {
    return integer_of(in_, keys, range, fallback);
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
        type.empty() ? "no model_type" : fmt::format("unknown model_type '{}'", printable(type));
    if (family_) {
      note(fmt::format("{}, read as {} by its architectures", unknown, family_->type));
    } else {
      family_ = find_hf_family("llama");
      note(
          fmt::format("{}, read by the general rule of Llama: check the parameter count", unknown));
    }
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
    const bool mixture = speaks_of_experts(in_);
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
        family_->kv_heads > 0 && !first_of(in_, kHeadKeys) ? family_->kv_heads : model_.heads;
    return integer(kKvHeadKeys, range, usual);
  }

  int64_t read_head_dim() {
    if (const auto key = first_of(in_, kHeadDimKeys)) return in_.integer(*key, {1, 100'000});
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
    if (model_.sliding_window > 0) model_.windowed_layers = count_windowed_layers();
    if (model_.windowed_layers == 0) model_.sliding_window = 0;
  }

  // The file lists the kinds of its layers, or every so many-th one attends to everything.
  int64_t count_windowed_layers() {
    const Json& kinds = in_.value("layer_types");
    if (kinds.is_array() && !kinds.empty())
      return std::min<int64_t>(model_.layers,
                               std::count_if(kinds.begin(), kinds.end(), [](const Json& kind) {
                                 return kind == "sliding_attention" || kind == "chunked_attention";
                               }));
    const int64_t period =
        in_.integer("sliding_window_pattern", {1, 10'000}, family_->window_period);
    return period > 0 ? model_.layers - model_.layers / period : model_.layers;
  }

  int64_t read_sliding_window() {
    const int64_t window =
        integer({"sliding_window", "attention_chunk_size"}, {0, 1'000'000'000}, 0);
    if (!in_.flag("use_sliding_window", !family_->windows_need_switch)) return 0;
    return window;
  }

  void read_blocks() {
    const HfFamily& family = *family_;
    model_.norm = family.norm;
    model_.norms_per_layer = family.norms;
    model_.gated_mlp = family.gated;
    model_.parallel_block = family.parallel;
    model_.activation = read_activation();
    const std::string epsilon = first_of(in_, kEpsilonKeys).value_or("rms_norm_eps");
    model_.norm_epsilon = in_.number(epsilon, {0, 1}, 1e-5);
    ObjectReader& tie = in_.has("tie_word_embeddings") ? in_ : root_;
    model_.tied_embeddings = tie.flag("tie_word_embeddings", family.tied);
    model_.dropout = read_dropout();
  }

  ActivationKind read_activation() {
    const auto key = first_of(in_, kActivationKeys);
    const std::string name = key ? in_.text(*key) : "";
    if (name.empty()) return family_->activation;
    const auto kind = find_hf_activation(name);
    if (!kind)
      in_.problem(*key, unknown_name("activation", name, hf_activation_names(),
                                     "known are gelu, gelu_new, relu and silu"));
    return kind.value_or(family_->activation);
  }

  bool read_dropout() {
    if (!first_of(in_, kDropoutKeys)) return family_->dropout;
    double largest = 0;
    for (const char* key : kDropoutKeys) largest = std::max(largest, in_.number(key, {0, 1}, 0.0));
    return largest > 0;
  }

  void read_positions() {
    model_.position = family_->position;
    if (in_.flag("alibi", false)) model_.position = PositionKind::alibi;
    std::optional<int64_t> usual;
    if (model_.position != PositionKind::learned && !first_of(in_, kPositionKeys)) {
      usual = kAssumedPositions;
      note(fmt::format("no longest sequence given, {} assumed", kAssumedPositions));
    }
    model_.positions = integer(kPositionKeys, {1, 1'000'000'000}, usual);
    if (model_.position == PositionKind::rotary) read_rotary();
  }

  // Newer files gather the members of rotary positions in an object, some by kind of layer.
  void read_rotary() {
    const bool gathered = in_.has("rope_parameters");
    ObjectReader rope = gathered ? in_.object("rope_parameters") : in_;
    if (rope.has("full_attention")) rope = rope.object("full_attention");
    const NumberRange bases{1, 1e15};
    model_.rotary_base =
        rope.number("rope_theta", bases, in_.number("rotary_emb_base", bases, 1e4));
    double fraction = in_.number("rotary_pct", {0, 1}, family_->rotary_fraction);
    fraction = in_.number("partial_rotary_factor", {0, 1}, fraction);
    if (gathered) fraction = rope.number("partial_rotary_factor", {0, 1}, fraction);
    model_.rotary_fraction = fraction;
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
  }

  // What single families have beside the common pattern.
  void apply_exceptions() {
    if (is("opt")) apply_opt();
    if (is("falcon")) apply_falcon();
    if (is("bloom")) model_.embedding_norm = true;
    if (is("gpt_neox")) model_.parallel_block = in_.flag("use_parallel_residual", true);
    if (is("gpt_oss")) model_.attention_sinks = true;
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
