// ModelSpec: counts, shares of tensor ranks and FLOPs against closed forms of the literature.
#include "engine/plan/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelSpec gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab, int64_t positions) {
  ModelSpec model;
  model.name = "gpt";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = vocab;
  model.positions = positions;
  return model;
}

ModelSpec llama() {
  ModelSpec model = gpt(32, 4096, 32, 128256, 8192);
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  model.norm = NormKind::rms_norm;
  model.activation = ActivationKind::silu;
  model.position = PositionKind::rotary;
  model.gated_mlp = true;
  model.tied_embeddings = model.qkv_bias = model.attention_out_bias = model.mlp_bias = false;
  return model;
}

// Every switch that adds a parameter, on.
ModelSpec everything() {
  ModelSpec model = llama();
  model.norm = NormKind::layer_norm;
  model.position = PositionKind::learned;
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = model.head_bias = true;
  model.qk_norm = model.embedding_norm = model.attention_sinks = true;
  model.norms_per_layer = 4;
  model.extra_position_rows = 2;
  model.embedding_width = 512;
  return model;
}

ModelSpec mixture() {
  ModelSpec model = llama();
  model.moe = {.experts = 8, .per_token = 2, .ffn_hidden = 14336};
  return model;
}

TEST(ModelSpec, GptCountsAsInNarayananEquation2) {
  for (const auto& [layers, hidden, heads] :
       {std::array<int64_t, 3>{24, 2304, 24}, {96, 12288, 96}, {105, 20480, 128}}) {
    const int64_t vocab = 51200, seq = 2048;
    const int64_t published =
        12 * layers * hidden * hidden + 13 * layers * hidden + (vocab + seq) * hidden;
    const int64_t final_norm = 2 * hidden;  // the paper leaves it out
    EXPECT_EQ(parameter_count(gpt(layers, hidden, heads, vocab, seq)), published + final_norm);
  }
}

TEST(ModelSpec, EverySwitchAddsItsParameters) {
  const ModelSpec base = llama();
  const auto added = [&](const std::function<void(ModelSpec&)>& change) {
    ModelSpec model = base;
    change(model);
    return parameter_count(model) - parameter_count(base);
  };
  EXPECT_EQ(added([](ModelSpec& m) { m.tied_embeddings = true; }), -128256 * 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.qkv_bias = true; }), 32 * (4096 + 2 * 1024));
  EXPECT_EQ(added([](ModelSpec& m) { m.attention_out_bias = true; }), 32 * 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.mlp_bias = true; }), 32 * (2 * 14336 + 4096));
  EXPECT_EQ(added([](ModelSpec& m) { m.head_bias = true; }), 128256);
  EXPECT_EQ(added([](ModelSpec& m) { m.qk_norm = true; }), 32 * 2 * 128);
  EXPECT_EQ(added([](ModelSpec& m) { m.attention_sinks = true; }), 32 * 32);
  EXPECT_EQ(added([](ModelSpec& m) { m.embedding_norm = true; }), 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.final_norm = false; }), -4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.norms_per_layer = 4; }), 32 * 2 * 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.norm = NormKind::layer_norm; }), (32 * 2 + 1) * 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.gated_mlp = false; }), -32 * int64_t{4096} * 14336);
  EXPECT_EQ(added([](ModelSpec& m) { m.position = PositionKind::learned; }), 8192 * 4096);
  EXPECT_EQ(added([](ModelSpec& m) { m.position = PositionKind::alibi; }), 0);
  EXPECT_EQ(added([](ModelSpec& m) { m.embedding_width = 512; }),
            -2 * int64_t{128256} * (4096 - 512) + 2 * 512 * 4096);
}

TEST(ModelSpec, OnlyVisitedExpertsAreActive) {
  const ModelSpec model = mixture();
  const int64_t expert = 3 * int64_t{4096} * 14336;
  EXPECT_EQ(parameter_count(model) - active_parameter_count(model), 32 * 6 * expert);
  EXPECT_EQ(parameter_count(model) - parameter_count(llama()), 32 * (7 * expert + 8 * 4096));
  EXPECT_EQ(active_parameter_count(llama()), parameter_count(llama()));
}

TEST(ModelSpec, VocabularyIsPaddedAsByMegatron) {
  EXPECT_EQ(padded_vocab(50257, 128, 8), 51200);
  EXPECT_EQ(padded_vocab(32000, 128, 8), 32768);
  EXPECT_EQ(padded_vocab(128256, 128, 8), 129024);
  EXPECT_EQ(padded_vocab(50257, 1, 1), 50257);
  EXPECT_EQ(padded_vocab(51200, 128, 8), 51200);
  EXPECT_THROW(padded_vocab(50257, 0, 8), std::logic_error);
}

// All ranks together hold the model with the padded vocabulary, and the replicated parts tp times.
TEST(RankParameters, SumToTheModelLessTheCopies) {
  for (ModelSpec model : {gpt(4, 1024, 16, 50257, 2048), llama(), everything()})
    for (const bool tied : {true, false})
      for (const int64_t tp : {1, 2, 4, 8}) {
        model.tied_embeddings = tied;
        const int64_t vocab = padded_vocab(model.vocab, 128, tp);
        const RankParameters rank = rank_parameters(model, tp, vocab);
        ModelSpec padded = model;
        padded.vocab = vocab;

        int64_t held =
            model.layers * rank.layer + rank.embedding + rank.positions + rank.final_norm;
        const int64_t head_bias = model.head_bias ? vocab / tp : 0;
        held += tied ? head_bias : rank.head;  // tied on the same rank: one matrix
        const int64_t norm = model.norm == NormKind::layer_norm ? 2 * model.hidden : model.hidden;
        int64_t copied = model.layers * rank.layer_replicated + rank.positions + rank.final_norm;
        if (model.embedding_norm) copied += norm;
        copied += 2 * model.embedding_width * model.hidden;  // projections
        EXPECT_EQ(tp * held - (tp - 1) * copied, parameter_count(padded))
            << "hidden " << model.hidden << " tp " << tp << " tied " << tied;
      }
}

TEST(RankParameters, ReplicatedPartIsNormsAndRowBiases) {
  EXPECT_EQ(rank_parameters(gpt(4, 1024, 16, 51200, 2048), 4, 51200).layer_replicated,
            2 * 2 * 1024 + 1024 + 1024);
  EXPECT_EQ(rank_parameters(llama(), 4, 128512).layer_replicated, 2 * 4096);
}

// The parts of every mixture and of latent attention make up the model, and tp ranks hold all of
// it.
TEST(RankParameters, PartsOfMixturesMakeUpTheModel) {
  ModelSpec latent = mixture();
  latent.moe = {256, 8, 2048, 2048, 3, false, true, false};
  latent.kv_heads = latent.heads;
  latent.head_dim = 192;
  latent.mla = {1536, 512, 128, 64, 128};
  for (const ModelSpec& model : {mixture(), latent}) {
    const int64_t mixtures = model.layers - model.moe.dense_layers;
    const auto held = [&](int64_t tp) {
      const RankParameters rank = rank_parameters(model, tp, model.vocab);
      return model.moe.dense_layers * rank.layer + mixtures * rank.mixture_layer + rank.embedding +
             rank.final_norm + rank.head;
    };
    const int64_t experts =
        mixtures * model.moe.experts * rank_parameters(model, 1, model.vocab).expert;
    EXPECT_EQ(held(1) + experts, parameter_count(model));
    EXPECT_GT(8 * held(8), held(1)) << "routers, norms and compressions are on every rank";
    EXPECT_LT(held(8), held(1) / 4);
  }
}

TEST(RankParameters, SmallestShareOfKvIsOneHead) {
  const ModelSpec model = llama();  // 8 KV heads of 128
  const auto layer = [&](int64_t tp) { return rank_parameters(model, tp, 131072).layer; };
  const int64_t norms = 2 * 4096;
  const int64_t split = 4096 * (2 * 4096 + 3 * 14336);
  EXPECT_EQ(layer(8), split / 8 + 4096 * 2 * 128 + norms);
  EXPECT_EQ(layer(16), split / 16 + 4096 * 2 * 128 + norms);
  EXPECT_EQ(layer(32), split / 32 + 4096 * 2 * 128 + norms);
}

TEST(RankParameters, GptLayerOfOneTensorRank) {
  // Megatron: 12 h² / t weights, 7 h / t column biases (3 h and 4 h), 2 h row biases, 4 h of norms.
  const int64_t h = 1024, t = 8;
  const RankParameters rank = rank_parameters(gpt(4, h, 16, 51200, 2048), t, 51200);
  EXPECT_EQ(rank.layer, 12 * h * h / t + 7 * h / t + 2 * h + 4 * h);
  EXPECT_EQ(rank.embedding, 51200 / t * h);
  EXPECT_EQ(rank.head, 51200 / t * h);
  EXPECT_EQ(rank.positions, 2048 * h);
  EXPECT_EQ(rank.final_norm, 2 * h);
}

TEST(RankParameters, IndivisibleSharesAreTheCallersMistake) {
  EXPECT_THROW(rank_parameters(llama(), 3, 128256), std::logic_error);
  EXPECT_THROW(rank_parameters(llama(), 8, 128257), std::logic_error);
  EXPECT_THROW(rank_parameters(llama(), 8, 128), std::logic_error);
  EXPECT_THROW(rank_parameters(llama(), 0, 128256), std::logic_error);
  ModelSpec three = gpt(2, 768, 12, 512, 128);
  three.kv_heads = 3;
  EXPECT_NO_THROW(rank_parameters(three, 6, 512 * 6));
  EXPECT_THROW(rank_parameters(three, 2, 512), std::logic_error);
}

// Equation 3 of Narayanan et al. 2021 counts four passes of the layers, with full recomputation,
// and three of the head.
TEST(Flops, GptEqualsNarayananEquation3) {
  for (const auto& [layers, hidden, heads] :
       {std::array<int64_t, 3>{24, 2304, 24}, {96, 12288, 96}, {128, 25600, 160}}) {
    const double l = static_cast<double>(layers), h = static_cast<double>(hidden);
    const int64_t vocab = 51200, seq = 2048;
    const double V = 51200, s = 2048;
    const ModelSpec model = gpt(layers, hidden, heads, vocab, seq);
    const double forward = forward_flops_per_token(model, seq, vocab);
    ModelSpec deeper = model;
    deeper.layers *= 2;
    const double forward_layers = forward_flops_per_token(deeper, seq, vocab) - forward;
    const double published = 96 * l * h * h * (1 + s / (6 * h) + V / (16 * l * h));
    EXPECT_NEAR((3 * forward + forward_layers) / published, 1, 1e-12);
    EXPECT_NEAR(3 * forward / (72 * l * h * h * (1 + s / (6 * h) + V / (12 * l * h))), 1, 1e-12);
  }
}

TEST(Flops, GroupedQueriesAndGatedMlpsCountTheirOwnMatrices) {
  const double layer = 2.0 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336) + 4.0 * 8192 * 4096;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(llama(), 8192, 129024),
                   32 * layer + 2.0 * 4096 * 129024);
}

TEST(Flops, TokensPayForTheExpertsTheyVisit) {
  const double per_layer = 2.0 * 4096 * (3 * 14336 + 8);  // one expert more than dense, a router
  EXPECT_DOUBLE_EQ(forward_flops_per_token(mixture(), 2048, 128256) -
                       forward_flops_per_token(llama(), 2048, 128256),
                   32 * per_layer);
}

TEST(Flops, LatentAttentionScoresItsOwnWidths) {
  ModelSpec model = llama();
  model.mla = {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  const double per_token =
      forward_flops_per_token(model, 2, 128256) - forward_flops_per_token(model, 1, 128256);
  EXPECT_DOUBLE_EQ(per_token, 32 * 2.0 * 32 * (192 + 128));
}

TEST(ModelSpec, SoundShapesHaveNoProblems) {
  EXPECT_THAT(shape_problems(llama()), IsEmpty());
  EXPECT_THAT(shape_problems(gpt(1, 64, 1, 2, 1)), IsEmpty());
  EXPECT_THAT(shape_problems(everything()), IsEmpty());
  EXPECT_THAT(shape_problems(mixture()), IsEmpty());
}

TEST(ModelSpec, EachUnsoundShapeIsNamed) {
  struct Case {
    std::function<void(ModelSpec&)> spoil;
    const char* problem;
  };
  const Case cases[] = {
      {[](ModelSpec& m) { m.layers = 0; }, "layers must be from 1 to 10,000, not 0"},
      {[](ModelSpec& m) { m.layers = 1'000'000'000'000'000'000; }, "layers must be"},
      {[](ModelSpec& m) { m.hidden = -1; }, "hidden must be"},
      {[](ModelSpec& m) { m.kv_heads = 5; }, "heads 32 must be a multiple of kv_heads 5"},
      {[](ModelSpec& m) { m.kv_heads = 64; }, "heads 32 must be a multiple of kv_heads 64"},
      {[](ModelSpec& m) { m.heads = m.kv_heads = 10'000, m.head_dim = 100'000; }, "at most"},
      {[](ModelSpec& m) { m.vocab = 100'000'001; }, "vocab must be"},
      {[](ModelSpec& m) { m.norms_per_layer = 9; }, "norms_per_layer must be"},
      {[](ModelSpec& m) { m.moe.experts = 8; }, "moe.per_token must be from 1 to 8, not 0"},
      {[](ModelSpec& m) {
         m.moe = {8, 9, 64};
       },
       "moe.per_token must be from 1 to 8, not 9"},
      {[](ModelSpec& m) {
         m.moe = {100'000, 1, 10'000'000};
       },
       "moe.experts 100000 times"},
      {[](ModelSpec& m) { m.moe.dense_layers = 1; }, "moe.dense_layers must be"},
      {[](ModelSpec& m) { m.mla.kv_rank = 512; }, "mla.nope_dim must be"},
  };
  for (const Case& test : cases) {
    ModelSpec model = llama();
    test.spoil(model);
    const auto problems = shape_problems(model);
    ASSERT_FALSE(problems.empty()) << test.problem;
    EXPECT_THAT(problems[0], HasSubstr(test.problem));
  }
}

// The largest shape that shape_problems lets through; a sanitizer build would see an overflow.
TEST(ModelSpec, LargestSoundShapeDoesNotOverflow) {
  ModelSpec model = everything();
  model.layers = 10'000;
  model.hidden = model.embedding_width = 1'000'000;
  model.heads = model.kv_heads = 10'000;
  model.head_dim = 1'000;
  model.ffn_hidden = 10'000'000;
  model.vocab = 100'000'000;
  model.positions = 1'000'000'000;
  model.norms_per_layer = 8;
  model.moe = {100, 100, 1'000'000, 10'000'000, 5'000, true, true, true};
  for (const bool latent : {false, true}) {
    if (latent) model.mla = {100'000, 100'000, 10'000, 10'000, 10'000};
    ASSERT_THAT(shape_problems(model), IsEmpty());
    EXPECT_GT(parameter_count(model), 1'000'000'000'000'000'000);
    EXPECT_GT(forward_flops_per_token(model, model.positions, model.vocab), 1e18);
  }
}

TEST(ModelSpecJson, RoundTripKeepsEveryMember) {
  ModelSpec model = everything();
  model.name = "odd";
  model.origin = "a test";
  model.moe = {8, 2, 1024, 512, 3, true, true, true};
  model.mla = {1, 2, 3, 4, 5};
  model.not_modelled = {"norms behind each branch", "embeddings narrower than the hidden size"};
  model.sliding_window = 4096;
  model.windowed_layers = 1;
  model.norm_epsilon = 1e-6;
  model.rotary_base = 5e5;
  model.rotary_fraction = 0.25;
  model.default_seq = 2048;
  model.default_gbs = 1536;
  model.dropout = false;
  model.final_norm = false;
  model.parallel_block = true;
  const nlohmann::json json = model;
  const ModelSpec again = model_spec_from_json(nlohmann::json::parse(json.dump()), "test");
  EXPECT_EQ(nlohmann::json(again), json);
  EXPECT_EQ(parameter_count(again), parameter_count(model));
  EXPECT_EQ(again.not_modelled, model.not_modelled);
  EXPECT_EQ(again.norm, NormKind::layer_norm);
  EXPECT_EQ(again.moe.dense_layers, 3);
}

// Changing any one member of the JSON changes the model that is read: no member is written but not
// read.
TEST(ModelSpecJson, EveryMemberIsRead) {
  ModelSpec model = mixture();
  model.sliding_window = 4096;
  model.windowed_layers = 8;
  const nlohmann::json json = model;
  for (const auto& [key, value] : json.items()) {
    nlohmann::json changed = json;
    if (value.is_boolean()) changed[key] = !value.get<bool>();
    if (value.is_number_integer()) changed[key] = 2 * value.get<int64_t>() + (key != "kv_heads");
    if (value.is_number_float()) changed[key] = value.get<double>() / 2;
    if (value.is_array()) changed[key] = {"reason"};
    if (key == "name" || key == "origin" || key.ends_with("_format")) changed[key] = "other";
    if (key == "heads") changed[key] = 64;
    if (key == "norm") changed[key] = "layer_norm";
    if (key == "position") changed[key] = "alibi";
    if (key == "activation") changed[key] = "relu";
    if (key == "norms_per_layer") changed[key] = 4;
    if (value.is_object()) continue;
    EXPECT_EQ(nlohmann::json(model_spec_from_json(changed, "test")), changed) << key;
    EXPECT_NE(changed, json) << key;
  }
}

// No window vanishes for want of layers that it applies to.
TEST(ModelSpecJson, AWindowAndItsLayersComeTogether) {
  nlohmann::json json = llama();
  json["sliding_window"] = 4096;
  EXPECT_THROW(model_spec_from_json(json, "test"), InputError);
  json["windowed_layers"] = 32;
  EXPECT_EQ(model_spec_from_json(json, "test").windowed_layers, 32);
  json.erase("sliding_window");
  EXPECT_THROW(model_spec_from_json(json, "test"), InputError);
}

TEST(ModelSpecJson, AllProblemsAtOnce) {
  nlohmann::json json = llama();
  json["layers"] = "many";
  json["norm"] = "batch_norm";
  json["hiden"] = 4096;
  json["moe"]["experts"] = nullptr;
  json["mla"] = 3;
  json["not_modelled"] = {1, 2};
  try {
    model_spec_from_json(json, "job.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 5u) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("job.json: layers: must be a whole number"));
    EXPECT_THAT(error.what(), HasSubstr("unknown member 'hiden'; did you mean hidden?"));
  }
}

TEST(ModelSpecJson, UnsoundShapesAndOtherDocumentsAreRefused) {
  nlohmann::json json = llama();
  json.erase("hidden");
  EXPECT_THROW(model_spec_from_json(json, "x"), InputError);
  json = llama();
  json["kv_heads"] = 3;
  EXPECT_THROW(model_spec_from_json(json, "x"), InputError);
  for (const char* text : {"null", "[]", "3", "{}", "\"x\""})
    EXPECT_THROW(model_spec_from_json(nlohmann::json::parse(text), "x"), InputError) << text;
}

}  // namespace
}  // namespace engine
