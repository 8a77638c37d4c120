// The table of Hugging Face families; sources are their configuration classes and published files.
#include "engine/plan/hf_families.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace engine {
namespace {

constexpr auto kLayerNorm = NormKind::layer_norm;
constexpr auto kLearned = PositionKind::learned;
constexpr auto kAlibi = PositionKind::alibi;
constexpr auto kGelu = ActivationKind::gelu;
constexpr auto kGeluTanh = ActivationKind::gelu_tanh;
constexpr auto kRelu = ActivationKind::relu;

constexpr std::string_view kEncoderDecoder = "encoder-decoder models are not decoders";
constexpr std::string_view kEncoder = "encoder-only models are not decoders";
constexpr std::string_view kHybrid = "hybrids of attention with linear or state-space layers";
constexpr std::string_view kStateSpace = "state-space models have no attention";
constexpr std::string_view kPerLayerInputs = "models with embeddings of their own in each layer";

// A LayerNorm without bias (mpt, cohere) holds what an RMSNorm holds, and is entered as one.
constexpr HfFamily kFamilies[] = {
    {.type = "llama"},
    {.type = "gpt2",
     .norm = kLayerNorm,
     .position = kLearned,
     .activation = kGeluTanh,
     .gated = false,
     .tied = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .dropout = true},
    {.type = "gpt_bigcode",
     .norm = kLayerNorm,
     .position = kLearned,
     .activation = kGeluTanh,
     .gated = false,
     .tied = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .dropout = true},
    {.type = "gpt_neox",
     .norm = kLayerNorm,
     .activation = kGelu,
     .gated = false,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .parallel = true,
     .rotary_fraction = 0.25},
    {.type = "gptj",
     .norm = kLayerNorm,
     .activation = kGeluTanh,
     .gated = false,
     .mlp_bias = true,
     .head_bias = true,
     .parallel = true,
     .norms = 1},
    {.type = "opt",
     .norm = kLayerNorm,
     .position = kLearned,
     .activation = kRelu,
     .gated = false,
     .tied = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .dropout = true},
    {.type = "bloom",
     .norm = kLayerNorm,
     .position = kAlibi,
     .activation = kGeluTanh,
     .gated = false,
     .tied = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true},
    {.type = "falcon", .norm = kLayerNorm, .activation = kGelu, .gated = false, .tied = true},
    {.type = "mpt", .position = kAlibi, .activation = kGelu, .gated = false, .tied = true},
    {.type = "mistral"},
    {.type = "mixtral"},
    {.type = "qwen2", .qkv_bias = true, .bias_keys = false, .windows_need_switch = true},
    {.type = "qwen2_moe", .qkv_bias = true, .bias_keys = false, .windows_need_switch = true},
    {.type = "qwen3", .qk_norm = true, .windows_need_switch = true},
    {.type = "qwen3_moe", .qk_norm = true, .windows_need_switch = true},
    {.type = "gemma", .activation = kGeluTanh, .tied = true, .head_dim = 256},
    {.type = "gemma2",
     .activation = kGeluTanh,
     .tied = true,
     .window_period = 2,
     .norms = 4,
     .head_dim = 256},
    {.type = "gemma3_text",
     .activation = kGeluTanh,
     .tied = true,
     .qk_norm = true,
     .window_period = 6,
     .norms = 4,
     .head_dim = 256,
     .heads = 8,
     .kv_heads = 4,
     .vocab = 262208},
    {.type = "phi",
     .norm = kLayerNorm,
     .activation = kGeluTanh,
     .gated = false,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .head_bias = true,
     .parallel = true,
     .norms = 1,
     .rotary_fraction = 0.5},
    {.type = "phi3"},
    {.type = "deepseek_v2"},
    {.type = "deepseek_v3", .router_bias = true},
    {.type = "kimi_k2", .router_bias = true},
    {.type = "glm_moe_dsa", .router_bias = true},
    {.type = "gpt_oss",
     .qkv_bias = true,
     .out_bias = true,
     .router_bias = true,
     .window_period = 2},
    {.type = "llama4_text", .window_period = 4},
    {.type = "chatglm", .qkv_bias = true, .rotary_fraction = 0.5},
    {.type = "nemotron",
     .norm = kLayerNorm,
     .activation = kRelu,
     .gated = false,
     .rotary_fraction = 0.5},
    {.type = "cohere", .tied = true, .parallel = true, .norms = 1},
    {.type = "starcoder2",
     .norm = kLayerNorm,
     .activation = kGeluTanh,
     .gated = false,
     .tied = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true},
    {.type = "t5", .refused = kEncoderDecoder},
    {.type = "mt5", .refused = kEncoderDecoder},
    {.type = "umt5", .refused = kEncoderDecoder},
    {.type = "bart", .refused = kEncoderDecoder},
    {.type = "whisper", .refused = kEncoderDecoder},
    {.type = "bert", .refused = kEncoder},
    {.type = "roberta", .refused = kEncoder},
    {.type = "distilbert", .refused = kEncoder},
    {.type = "mamba", .refused = kStateSpace},
    {.type = "mamba2", .refused = kStateSpace},
    {.type = "nemotron_h", .refused = kHybrid},
    {.type = "qwen3_next", .refused = kHybrid},
    {.type = "qwen3_5", .refused = kHybrid},
    {.type = "qwen3_5_moe", .refused = kHybrid},
    {.type = "gemma3n", .refused = kPerLayerInputs},
    {.type = "gemma4", .refused = kPerLayerInputs},
};

// Other names of the same text model.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"gemma3", "gemma3_text"}, {"llama4", "llama4_text"},     {"mistral3", "mistral"},
    {"ministral", "mistral"},  {"qwen2_vl", "qwen2"},         {"qwen2_5_vl", "qwen2"},
    {"qwen3_vl", "qwen3"},     {"qwen3_vl_moe", "qwen3_moe"}, {"deepseek_v32", "glm_moe_dsa"},
};

// The squared ReLU has the size and the cost of the plain one.
constexpr std::pair<std::string_view, ActivationKind> kActivations[] = {
    {"gelu", kGelu},
    {"gelu_new", kGeluTanh},
    {"gelu_fast", kGeluTanh},
    {"gelu_tanh", kGeluTanh},
    {"gelu_pytorch_tanh", kGeluTanh},
    {"quick_gelu", kGeluTanh},
    {"relu", kRelu},
    {"relu2", kRelu},
    {"silu", ActivationKind::silu},
    {"swish", ActivationKind::silu},
    {"swiglu", ActivationKind::silu},
};

const HfFamily* find_exact(std::string_view type) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const HfFamily& family) { return family.type == type; });
  return found == std::end(kFamilies) ? nullptr : found;
}

std::string letters_and_digits(std::string_view text) {
  std::string plain;
  for (const unsigned char c : text)
    if (std::isalnum(c)) plain += static_cast<char>(std::tolower(c));
  return plain;
}

}  // namespace

const HfFamily* find_hf_family(std::string_view model_type) {
  if (const HfFamily* family = find_exact(model_type)) return family;
  constexpr std::string_view kText = "_text";
  if (model_type.ends_with(kText)) model_type.remove_suffix(kText.size());
  for (const auto& [alias, type] : kAliases)
    if (alias == model_type) return find_exact(type);
  return find_exact(model_type);
}

const HfFamily* find_hf_family_by_class(std::string_view architecture) {
  for (const std::string_view ending :
       {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model"})
    if (architecture.ends_with(ending)) {
      architecture.remove_suffix(ending.size());
      break;
    }
  const std::string plain = letters_and_digits(architecture);
  for (const HfFamily& family : kFamilies)
    if (letters_and_digits(family.type) == plain) return &family;
  for (const auto& [alias, type] : kAliases)
    if (letters_and_digits(alias) == plain) return find_exact(type);
  return nullptr;
}

std::optional<ActivationKind> find_hf_activation(std::string_view name) {
  for (const auto& [known, kind] : kActivations)
    if (known == name) return kind;
  return std::nullopt;
}

std::vector<std::string> hf_activation_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : kActivations) names.emplace_back(name);
  return names;
}

}  // namespace engine
