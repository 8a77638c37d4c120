// Tensor names and config.json of both families.
#include "engine/checkpoint/model_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/checkpoint/hf_config_writer.h"
#include "engine/plan/hf_config.h"
#include "tests/engine/checkpoint/test_models.h"

namespace engine {

void PrintTo(const ModelTensor& tensor, std::ostream* out) {
  *out << tensor.name << testing::PrintToString(tensor.shape);
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int64_t elements(const std::vector<ModelTensor>& tensors) {
  int64_t count = 0;
  for (const ModelTensor& tensor : tensors) {
    int64_t one = 1;
    for (const int64_t size : tensor.shape) one *= size;
    count += one;
  }
  return count;
}

// The names of the published files of gpt2 (there without the prefix) and of Llama 2.
TEST(ModelTensors, Gpt2) {
  ModelSpec model = tiny_gpt2();
  model.layers = 1;
  const std::vector<ModelTensor> expected = {
      {"transformer.wte.weight", {50, 16}},
      {"transformer.wpe.weight", {32, 16}},
      {"transformer.h.0.ln_1.weight", {16}},
      {"transformer.h.0.ln_1.bias", {16}},
      {"transformer.h.0.attn.c_attn.weight", {16, 48}},
      {"transformer.h.0.attn.c_attn.bias", {48}},
      {"transformer.h.0.attn.c_proj.weight", {16, 16}},
      {"transformer.h.0.attn.c_proj.bias", {16}},
      {"transformer.h.0.ln_2.weight", {16}},
      {"transformer.h.0.ln_2.bias", {16}},
      {"transformer.h.0.mlp.c_fc.weight", {16, 64}},
      {"transformer.h.0.mlp.c_fc.bias", {64}},
      {"transformer.h.0.mlp.c_proj.weight", {64, 16}},
      {"transformer.h.0.mlp.c_proj.bias", {16}},
      {"transformer.ln_f.weight", {16}},
      {"transformer.ln_f.bias", {16}},
  };
  EXPECT_EQ(model_tensors(model), expected);
  EXPECT_EQ(bare_tensor_name(model, "transformer.wte.weight"), "wte.weight");
  EXPECT_TRUE(is_ignored_tensor(model, "h.3.attn.bias"));
  EXPECT_TRUE(is_ignored_tensor(model, "lm_head.weight"));
  EXPECT_FALSE(is_ignored_tensor(model, "h.3.attn.c_attn.bias"));
}

TEST(ModelTensors, Llama) {
  ModelSpec model = tiny_llama();
  model.layers = 1;
  const std::vector<ModelTensor> expected = {
      {"model.embed_tokens.weight", {50, 16}},
      {"model.layers.0.input_layernorm.weight", {16}},
      {"model.layers.0.self_attn.q_proj.weight", {32, 16}},
      {"model.layers.0.self_attn.k_proj.weight", {16, 16}},
      {"model.layers.0.self_attn.v_proj.weight", {16, 16}},
      {"model.layers.0.self_attn.o_proj.weight", {16, 32}},
      {"model.layers.0.post_attention_layernorm.weight", {16}},
      {"model.layers.0.mlp.gate_proj.weight", {40, 16}},
      {"model.layers.0.mlp.up_proj.weight", {40, 16}},
      {"model.layers.0.mlp.down_proj.weight", {16, 40}},
      {"model.norm.weight", {16}},
      {"lm_head.weight", {50, 16}},
  };
  EXPECT_EQ(model_tensors(model), expected);
}

// No tensor is forgotten: the names hold as many elements as the model has parameters.
TEST(ModelTensors, HoldAllParameters) {
  std::vector<ModelSpec> models = {tiny_gpt2(), tiny_llama()};
  for (int i = 0; i < 2; ++i) {
    ModelSpec other = models[static_cast<size_t>(i)];
    other.tied_embeddings = !other.tied_embeddings;
    models.push_back(other);
    other.qkv_bias = !other.qkv_bias;
    models.push_back(other);
    other.mlp_bias = !other.mlp_bias;
    models.push_back(other);
    other.norm = NormKind::layer_norm;
    models.push_back(other);
    other.final_norm = false;
    models.push_back(other);
    other.gated_mlp = !other.gated_mlp;
    models.push_back(other);
  }
  for (const ModelSpec& model : models)
    EXPECT_EQ(elements(model_tensors(model)), parameter_count(model)) << model.name;
}

TEST(ModelTensors, PartsWithoutANameAreRefusedTogether) {
  ModelSpec model = tiny_llama();
  model.qk_norm = model.attention_sinks = true;
  try {
    model_tensors(model);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 2u);
  }
}

TEST(HfConfig, IsReadBackAsTheSameModel) {
  std::vector<std::pair<ModelSpec, std::string>> models = {{tiny_gpt2(), "gpt2"},
                                                           {tiny_llama(), "llama"}};
  ModelSpec model = tiny_gpt2();
  model.activation = ActivationKind::relu;
  model.tied_embeddings = model.dropout = false;
  models.emplace_back(model, "gpt2");
  model = tiny_llama();
  model.qkv_bias = true;
  models.emplace_back(model, "qwen2");
  model.attention_out_bias = model.mlp_bias = model.tied_embeddings = true;
  models.emplace_back(model, "llama");
  model = tiny_llama();
  model.sliding_window = 16;
  model.windowed_layers = model.layers;
  models.emplace_back(model, "mistral");
  for (const auto& [written, type] : models) {
    const auto config = hf_config_of(written);
    ASSERT_TRUE(config.has_value()) << type;
    EXPECT_EQ((*config)["model_type"], type);
    EXPECT_THAT(config_contradictions(*config, "config.json", written), ElementsAre());
    ModelSpec read = model_spec_from_hf_config(*config, "config.json");
    read.name = written.name;
    read.origin = written.origin;
    Json a, b;
    to_json(a, written);
    to_json(b, read);
    EXPECT_EQ(a, b) << type;
  }
}

TEST(HfConfig, ModelsOfNoTypeHaveNone) {
  ModelSpec model = tiny_gpt2();
  model.qkv_bias = false;
  EXPECT_FALSE(hf_config_of(model));
  model = tiny_llama();
  model.norm = NormKind::layer_norm;
  EXPECT_FALSE(hf_config_of(model));
  model = tiny_llama();
  model.rotary_fraction = 0.5;
  EXPECT_FALSE(hf_config_of(model));
}

TEST(HfConfig, ContradictionsAndUnknownArithmetic) {
  const ModelSpec model = tiny_llama();
  const Json good = *hf_config_of(model);
  const auto problems_with = [&](const Json& patch) {
    Json config = good;
    config.merge_patch(patch);
    return config_contradictions(config, "c.json", model);
  };
  EXPECT_THAT(problems_with({{"max_position_embeddings", 9999}, {"attention_dropout", 0.1}}),
              ElementsAre());
  EXPECT_THAT(problems_with({{"rms_norm_eps", 1e-5}}),
              ElementsAre(HasSubstr("norm_epsilon is 1e-05")));
  EXPECT_THAT(
      problems_with({{"num_attention_heads", 8}, {"head_dim", 4}, {"num_key_value_heads", 4}}),
      testing::SizeIs(3));
  EXPECT_THAT(problems_with({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}}),
              ElementsAre(HasSubstr("scaled rotary positions (rope_scaling 'llama3')")));
  EXPECT_THAT(problems_with({{"quantization_config", {{"bits", 4}}}}),
              ElementsAre(HasSubstr("quantized")));
  Json gpt2 = *hf_config_of(tiny_gpt2());
  gpt2["scale_attn_by_inverse_layer_idx"] = true;
  gpt2["scale_attn_weights"] = false;
  EXPECT_THAT(config_contradictions(gpt2, "c.json", tiny_gpt2()), testing::SizeIs(2));
}

}  // namespace
}  // namespace engine
