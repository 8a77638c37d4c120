// The reader of Hugging Face configs: published totals, every reading rule, and hostile files.
#include "engine/plan/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tests/engine/plan/published_configs.h"

namespace engine {
namespace {

using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Not;

ModelSpec read(const std::string& text) {
  return model_spec_from_hf_config(parse_json(text, "config.json"), "config.json");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
    return "no error";
  } catch (const InputError& error) {
    return error.what();
  }
}

const char* const kLlama = R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "vocab_size": 128256, "max_position_embeddings": 131072})";

// The Llama config with members replaced or added; null takes a member out.
std::string llama_with(const std::string& members) {
  Json json = Json::parse(kLlama);
  json.update(Json::parse(members));
  return json.dump();
}

TEST(HfConfig, CountsEveryParameterOfPublishedCheckpoints) {
  for (const PublishedConfig& published : kPublishedConfigs)
    EXPECT_EQ(parameter_count(read(published.config)), published.parameters) << published.name;
}

TEST(HfConfig, NullMeansAbsent) {
  for (const PublishedConfig& published : kPublishedConfigs) {
    Json json = Json::parse(published.config);
    for (const char* key : {"num_key_value_heads", "head_dim", "n_inner", "sliding_window",
                            "tie_word_embeddings", "rope_scaling", "attention_bias", "q_lora_rank"})
      if (!json.contains(key)) json[key] = nullptr;
    EXPECT_EQ(parameter_count(read(json.dump())), published.parameters) << published.name;
  }
}

// A multimodal file wraps the same text model and may keep the tie at the top.
TEST(HfConfig, WrappedTextModelCountsTheSame) {
  for (const PublishedConfig& published : kPublishedConfigs) {
    Json text = Json::parse(published.config);
    Json json = {{"model_type", "some_vision_model"}, {"vision_config", {{"hidden_size", 1152}}}};
    if (text.contains("tie_word_embeddings")) {
      json["tie_word_embeddings"] = text["tie_word_embeddings"];
      text.erase("tie_word_embeddings");
    }
    json["text_config"] = text;
    EXPECT_EQ(parameter_count(read(json.dump())), published.parameters) << published.name;
  }
}

TEST(HfConfig, ModelsThatAreNotCoveredSayWhyNot) {
  const std::map<std::string, std::vector<std::string>> reasons = {
      {"opt-350m", {"embeddings narrower than the hidden size", "norms behind each branch"}}};
  for (const PublishedConfig& published : kPublishedConfigs) {
    const auto expected = reasons.find(published.name);
    EXPECT_EQ(read(published.config).not_modelled,
              expected == reasons.end() ? std::vector<std::string>() : expected->second)
        << published.name;
  }
}

TEST(HfConfig, AliasesOfOldFilesReadTheSame) {
  const Json plain = Json::parse(kLlama);
  const std::pair<const char*, const char*> aliases[] = {
      {"hidden_size", "n_embd"},
      {"hidden_size", "d_model"},
      {"hidden_size", "n_embed"},
      {"num_hidden_layers", "n_layer"},
      {"num_hidden_layers", "num_layers"},
      {"num_hidden_layers", "num_decoder_layers"},
      {"num_attention_heads", "n_head"},
      {"num_attention_heads", "num_heads"},
      {"num_key_value_heads", "num_kv_heads"},
      {"intermediate_size", "ffn_dim"},
      {"intermediate_size", "n_inner"},
      {"intermediate_size", "ffn_hidden_size"},
      {"intermediate_size", "d_ff"},
      {"max_position_embeddings", "n_positions"},
      {"max_position_embeddings", "n_ctx"},
      {"max_position_embeddings", "seq_length"},
      {"max_position_embeddings", "max_sequence_length"}};
  for (const auto& [name, alias] : aliases) {
    Json json = plain;
    json[alias] = json[name];
    json.erase(name);
    EXPECT_EQ(Json(read(json.dump())), Json(read(kLlama))) << alias;
  }
}

TEST(HfConfig, HeadDimIsNotAlwaysHiddenOverHeads) {
  EXPECT_EQ(read(kLlama).head_dim, 128);
  EXPECT_EQ(read(llama_with(R"({"head_dim": 64})")).q_width(), 2048);
  EXPECT_EQ(read(llama_with(R"({"model_type": "gemma"})")).head_dim, 256);
  EXPECT_THAT(error_of(llama_with(R"({"hidden_size": 4100})")), HasSubstr("add head_dim"));
}

TEST(HfConfig, LatentAttentionIgnoresTheRotaryHeadDim) {
  const ModelSpec model = read(R"({"model_type": "deepseek_v3", "hidden_size": 7168,
    "num_hidden_layers": 4, "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 64,
    "intermediate_size": 18432, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_nextn_predict_layers": 1,
    "vocab_size": 129280})");
  EXPECT_EQ(model.head_dim, 192);
  EXPECT_EQ(model.layers, 4);
}

TEST(HfConfig, MissingTieFollowsTheFamily) {
  const auto tied = [](const char* type) {
    return read(llama_with(R"({"model_type": ")" + std::string(type) + R"("})")).tied_embeddings;
  };
  for (const char* type : {"gpt2", "opt", "bloom", "gemma", "gemma2", "gemma3_text", "falcon"})
    EXPECT_TRUE(tied(type)) << type;
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3", "phi", "phi3", "gpt_neox"})
    EXPECT_FALSE(tied(type)) << type;
  EXPECT_TRUE(read(llama_with(R"({"tie_word_embeddings": true})")).tied_embeddings);
}

TEST(HfConfig, BiasesFollowTheFamilyAndTheFile) {
  const ModelSpec plain = read(kLlama);
  EXPECT_FALSE(plain.qkv_bias || plain.attention_out_bias || plain.mlp_bias);
  const ModelSpec biased = read(llama_with(R"({"attention_bias": true})"));
  EXPECT_TRUE(biased.qkv_bias && biased.attention_out_bias && !biased.mlp_bias);
  EXPECT_TRUE(read(llama_with(R"({"mlp_bias": true})")).mlp_bias);
  const ModelSpec qwen = read(llama_with(R"({"model_type": "qwen2", "attention_bias": false})"));
  EXPECT_TRUE(qwen.qkv_bias && !qwen.attention_out_bias);
}

TEST(HfConfig, SlidingWindowObeysItsSwitch) {
  const auto window = [](const std::string& members) {
    return read(llama_with(members)).sliding_window;
  };
  EXPECT_EQ(window(R"({"model_type": "mistral", "sliding_window": 4096})"), 4096);
  EXPECT_EQ(window(R"({"model_type": "mistral", "sliding_window": null})"), 0);
  EXPECT_EQ(window(R"({"model_type": "qwen2", "sliding_window": 131072,
                       "use_sliding_window": false})"),
            0);
  EXPECT_EQ(window(R"({"model_type": "qwen2", "sliding_window": 4096})"), 0);
  EXPECT_EQ(window(R"({"model_type": "qwen2", "sliding_window": 4096,
                       "use_sliding_window": true})"),
            4096);
  EXPECT_EQ(window(R"({"model_type": "gemma2", "sliding_window": 4096,
                       "layer_types": ["sliding_attention", "full_attention"]})"),
            4096);
  EXPECT_EQ(window(R"({"model_type": "gemma2", "sliding_window": 4096,
                       "layer_types": ["full_attention", "full_attention"]})"),
            0);
  EXPECT_EQ(window(R"({"model_type": "gemma3_text", "sliding_window": 512,
                       "sliding_window_pattern": 1})"),
            0);
}

TEST(HfConfig, RotaryMembersOfOldAndNewFiles) {
  EXPECT_EQ(read(kLlama).rotary_base, 1e4);
  EXPECT_EQ(read(llama_with(R"({"rope_theta": 500000.0})")).rotary_base, 5e5);
  const ModelSpec newer =
      read(llama_with(R"({"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}})"));
  EXPECT_EQ(newer.rotary_base, 1e6);
  EXPECT_EQ(newer.rotary_fraction, 0.5);
  EXPECT_EQ(read(llama_with(R"({"rope_parameters": {"sliding_attention": {"rope_theta": 1e4},
                                "full_attention": {"rope_theta": 2e6}}})"))
                .rotary_base,
            2e6);
  EXPECT_EQ(read(llama_with(R"({"model_type": "gpt_neox"})")).rotary_fraction, 0.25);
  EXPECT_EQ(read(llama_with(R"({"model_type": "gpt_neox", "rotary_pct": 1.0})")).rotary_fraction,
            1.0);
}

TEST(HfConfig, DropoutIsTheFilesOrTheFamilys) {
  EXPECT_FALSE(read(kLlama).dropout);
  EXPECT_TRUE(read(llama_with(R"({"attention_dropout": 0.1})")).dropout);
  EXPECT_TRUE(read(llama_with(R"({"model_type": "gpt2"})")).dropout);
  EXPECT_FALSE(
      read(llama_with(R"({"model_type": "gpt2", "attn_pdrop": 0, "resid_pdrop": 0.0})")).dropout);
}

// Published Gemma 3 files leave out what their class knows.
TEST(HfConfig, GemmaThreeTextModelFillsFromItsClass) {
  const ModelSpec model = read(R"({"model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 34, "sliding_window": 1024}})");
  EXPECT_EQ(model.heads, 8);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_THAT(model.origin, HasSubstr("config.json; its text model alone"));
  EXPECT_EQ(model.head_dim, 256);
  EXPECT_EQ(parameter_count(model), 3'880'263'168);
}

TEST(HfConfig, DenseLayersByEveryConvention) {
  const auto dense = [](const std::string& members) {
    Json json = Json::parse(llama_with(
        R"({"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024})"));
    json.update(Json::parse(members));
    return read(json.dump()).moe.dense_layers;  // of 32
  };
  EXPECT_EQ(dense(R"({})"), 0);
  EXPECT_EQ(dense(R"({"first_k_dense_replace": 3})"), 3);
  EXPECT_EQ(dense(R"({"first_k_dense_replace": 1, "moe_layer_freq": 2})"), 17);
  EXPECT_EQ(dense(R"({"moe_layer_freq": [0, 1, 1, 0]})"), 2);
  EXPECT_EQ(dense(R"({"decoder_sparse_step": 2})"), 16);
  EXPECT_EQ(dense(R"({"interleave_moe_layer_step": 4})"), 24);
  EXPECT_EQ(dense(R"({"mlp_only_layers": [0, 5, 99]})"), 2);
}

TEST(HfConfig, LlamaFourInterleavesDenseLayersAndSharesAnExpert) {
  const ModelSpec model = read(R"({"model_type": "llama4", "text_config": {
    "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 2, "num_local_experts": 128,
    "num_experts_per_tok": 1, "vocab_size": 202048, "attention_chunk_size": 8192,
    "max_position_embeddings": 1048576}})");
  EXPECT_EQ(model.moe.dense_layers, 24);
  EXPECT_EQ(model.ffn_hidden, 16384);
  EXPECT_EQ(model.moe.shared_hidden, 8192);
  EXPECT_NEAR(static_cast<double>(parameter_count(model)), 400e9, 2e9);          // Maverick: 400 B
  EXPECT_NEAR(static_cast<double>(active_parameter_count(model)), 17e9, 0.5e9);  // 17 B active
}

TEST(HfConfig, UnknownTypeFallsBackAndSaysSo) {
  const ModelSpec by_class =
      read(llama_with(R"({"model_type": "my_qwen", "architectures": ["Qwen2ForCausalLM"]})"));
  EXPECT_TRUE(by_class.qkv_bias);
  EXPECT_THAT(by_class.origin, HasSubstr("unknown model_type 'my_qwen', read as qwen2"));
  const ModelSpec general = read(llama_with(R"({"model_type": "tulip"})"));
  EXPECT_EQ(parameter_count(general), parameter_count(read(kLlama)));
  EXPECT_THAT(general.origin, HasSubstr("read by the general rule of Llama"));
  EXPECT_THAT(read(llama_with(R"({"model_type": null})")).origin, HasSubstr("no model_type"));
  EXPECT_THAT(read(llama_with(R"({"model_type": "t\u001b[31m\u00e9"})")).origin,
              HasSubstr("'t?[31m?"));
  EXPECT_EQ(read(kLlama).origin, "config.json");
}

TEST(HfConfig, AssumedPositionsAreSaid) {
  const ModelSpec model = read(llama_with(R"({"max_position_embeddings": null})"));
  EXPECT_EQ(model.positions, 2048);
  EXPECT_THAT(model.origin, HasSubstr("2048 assumed"));
  EXPECT_THAT(error_of(llama_with(R"({"model_type": "opt", "max_position_embeddings": null})")),
              HasSubstr("max_position_embeddings: is missing"));
}

TEST(HfConfig, ParallelSettingsAndQuantizationAreNoShape) {
  ModelSpec model = read(llama_with(R"({"pretraining_tp": 4, "ep_size": 8, "torch_dtype": "float16",
      "quantization_config": {"quant_method": "fp8"}, "time_step_limit": [0, null]})"));
  model.weight_format = read(kLlama).weight_format;
  EXPECT_EQ(Json(model), Json(read(kLlama)));
  std::string infinite(kLlama);
  infinite.insert(1, R"("time_step_limit": [0.0, Infinity], "x": NaN, "y": -Infinity, )");
  EXPECT_EQ(Json(read(infinite)), Json(read(kLlama)));
}

TEST(HfConfig, OtherFilesAndOtherArchitecturesAreRefusedClearly) {
  const std::pair<std::string, const char*> cases[] = {
      {R"({"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-2-7b-hf"})",
       "adapter (LoRA); give the config.json of its base model meta-llama/Llama-2-7b-hf"},
      {R"({"_class_name": "StableDiffusionPipeline"})", "diffusion pipeline"},
      {R"({"model_type": "t5", "d_model": 512})", "encoder-decoder"},
      {R"({"model_type": "mt5"})", "encoder-decoder"},
      {R"({"model_type": "bert", "hidden_size": 768})", "encoder-only"},
      {R"({"model_type": "nemotron_h"})", "hybrids of attention"},
      {R"({"model_type": "qwen3_next"})", "hybrids of attention"},
      {R"({"model_type": "mamba"})", "state-space"},
      {llama_with(R"({"is_encoder_decoder": true})"), "encoder-decoder"},
      {llama_with(R"({"model_type": "new", "hybrid_override_pattern": "M-*"})"),
       "hybrid_override_pattern speaks of layers other than attention"},
      {llama_with(R"({"linear_num_key_heads": 16})"), "linear_num_key_heads"},
      {llama_with(R"({"layer_types": ["full_attention", "linear_attention"]})"), "layer_types"},
      {R"({})", "num_hidden_layers: is missing"},
      {"[1]", "must be an object"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(error_of(text), HasSubstr(message)) << text;
}

TEST(HfConfig, EveryProblemOfAFileAtOnce) {
  const std::string error = error_of(R"({"model_type": "llama", "hidden_size": "wide",
    "num_hidden_layers": 1e18, "num_attention_heads": -8, "num_key_value_heads": {},
    "intermediate_size": 2.5, "vocab_size": [], "hidden_act": "tanhh",
    "tie_word_embeddings": "yes", "rms_norm_eps": NaN, "rope_theta": -1})");
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "intermediate_size", "vocab_size", "hidden_act", "tie_word_embeddings", "rope_theta"})
    EXPECT_THAT(error, HasSubstr("config.json: " + std::string(key))) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 8) << error;  // each named once
  EXPECT_THAT(error, Not(HasSubstr("rms_norm_eps")));                   // NaN reads as null
  EXPECT_THAT(error_of(llama_with(R"({"num_key_value_heads": 5})")), HasSubstr("multiple"));
}

// Every member of every config replaced by every nasty value: one InputError or a sound model.
TEST(HfConfig, HostileMembersNeverCrashNorOverflow) {
  const char* const nasty[] = {"null",
                               "true",
                               "-1",
                               "0",
                               "1",
                               "1e18",
                               "1e308",
                               "2.5",
                               "\"\"",
                               "\"\\u0000\"",
                               "[]",
                               "{}",
                               "[[[1]]]",
                               "9223372036854775807",
                               "18446744073709551615",
                               "[0, 1, -1, 1e300]",
                               "{\"a\": null}"};
  int errors = 0;
  int sound = 0;
  for (const PublishedConfig& published : kPublishedConfigs) {
    Json extended = Json::parse(published.config);
    for (const char* key :
         {"text_config", "architectures", "layer_types", "moe_layer_freq", "mlp_only_layers",
          "rope_parameters", "sliding_window", "is_encoder_decoder"})
      if (!extended.contains(key)) extended[key] = nullptr;
    for (const auto& [key, value] : extended.items())
      for (const char* replacement : nasty) {
        Json json = extended;
        json[key] = Json::parse(replacement);
        try {
          const ModelSpec model = read(json.dump());
          EXPECT_THAT(shape_problems(model), IsEmpty());
          EXPECT_GT(parameter_count(model), 0);
          ++sound;
        } catch (const InputError& error) {
          EXPECT_FALSE(error.problems().empty());
          ++errors;
        }
      }
  }
  EXPECT_GT(errors, 1000);
  EXPECT_GT(sound, 1000);
}

TEST(HfConfig, FormatsOfTheCheckpoint) {
  const auto formats = [](const std::string& members) {
    Json json = Json::parse(kLlama);
    json.update(Json::parse(members));
    const ModelSpec model = read(json.dump());
    return model.weight_format + "/" + model.kv_format;
  };
  const std::map<std::string, std::string> expected = {
      {R"({"torch_dtype": "float16"})", "fp16/"},
      {R"({"dtype": "bfloat16"})", "bf16/"},
      {R"({"quantization_config": {"quant_method": "fp8"}})", "fp8/"},
      {R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})", "int4/"},
      {R"({"quantization_config": {"quant_method": "awq", "bits": 4}})", "int4/"},
      {R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})",
       "int8/"},
      {R"({"quantization_config": {"quant_method": "mxfp4"}})", "mxfp4/"},
      {R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups":
          {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 32}}}}})",
       "mxfp4/"},
      {R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups":
          {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}})",
       "fp4/"},
      {R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups":
          {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}})",
       "fp8/"},
      {R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
          "kv_cache_quant_algo": "FP8"}})",
       "fp4/fp8"},
      {R"({"torch_dtype": 3, "quantization_config": [1]})", "/"}};
  for (const auto& [members, text] : expected) EXPECT_EQ(formats(members), text) << members;
}

TEST(HfConfig, BrokenFilesAreOneClearError) {
  const std::string text = Json::parse(kLlama).dump();
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_THAT(error_of(text.substr(0, size)), HasSubstr("not valid JSON")) << size;
  EXPECT_THAT(error_of(R"({"hidden_size": 1e999})"), HasSubstr("not valid JSON"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"text_config\":";
  EXPECT_THAT(error_of(deep), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace engine
