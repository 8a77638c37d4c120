// Stacks: what a layer saves equals the paper's formulas, and stack files are checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"
#include "tuner/model/stack.h"

namespace tuner {
namespace {

using engine::AttentionKind;
using engine::InputError;
using engine::Json;
using engine::ModelSpec;
using engine::ParallelPlan;
using engine::Precision;
using engine::Workload;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec gpt(int64_t layers, int64_t hidden, int64_t heads) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = 4 * hidden;
  return model;
}

ModelSpec llama() {
  ModelSpec model = gpt(32, 4096, 32);
  model.kv_heads = 8;
  model.ffn_hidden = 14336;
  model.norm = engine::NormKind::rms_norm;
  model.position = engine::PositionKind::rotary;
  model.gated_mlp = true;
  model.dropout = false;
  return model;
}

ParallelPlan plan_of(int64_t mbs, int tp, bool sp, int cp = 1) {
  ParallelPlan plan;
  plan.mbs = mbs;
  plan.tp = tp;
  plan.sp = sp;
  plan.cp = cp;
  return plan;
}

double layer_bytes(const Stack& stack, const ModelSpec& model, const Workload& workload,
                   const ParallelPlan& plan, bool with_attention_core = true) {
  return saved_bytes(saved_tensors(stack, model, workload.attention), model, workload, plan,
                     with_attention_core);
}

// Korthikanti et al. 2022, equations 2, 4 and 6 and table 2, in whole numbers: every term is exact.
TEST(SavedBytes, TheTableOfMegatron2022IsThePapersExactly) {
  struct Case {
    int64_t layers, h, a, b;
  };
  const int64_t s = 2048;
  const int64_t t = 8;
  const Stack stack = find_stack("megatron-2022");
  const Workload workload{.seq = s};
  for (const Case& model_case : {Case{48, 6144, 64, 4}, Case{96, 12288, 96, 1},
                                 Case{105, 20480, 128, 1}, Case{128, 25600, 160, 1}}) {
    const auto& [layers, h, a, b] = model_case;
    const ModelSpec model = gpt(layers, h, a);
    const int64_t sbh = s * b * h;
    const int64_t core = 5 * a * s * s * b;
    const ParallelPlan tensor = plan_of(b, t, false);
    const ParallelPlan sequence = plan_of(b, t, true);
    const auto exact = [](int64_t bytes) { return static_cast<double>(bytes); };
    EXPECT_EQ(layer_bytes(stack, model, workload, tensor), exact(10 * sbh + (24 * sbh + core) / t));
    EXPECT_EQ(layer_bytes(stack, model, workload, sequence), exact((34 * sbh + core) / t));
    EXPECT_EQ(layer_bytes(stack, model, workload, tensor, false), exact(10 * sbh + 24 * sbh / t));
    EXPECT_EQ(layer_bytes(stack, model, workload, sequence, false), exact(34 * sbh / t));
    EXPECT_EQ(saved_bytes(stack.saved_full, model, workload, tensor), exact(2 * sbh));
    EXPECT_EQ(saved_bytes(stack.saved_full, model, workload, sequence), exact(2 * sbh / t));
    // Without parallelism, equation 1: sbh (34 + 5as/h).
    EXPECT_EQ(layer_bytes(stack, model, workload, plan_of(b, 1, false)), exact(34 * sbh + core));
    // The ends of the pipeline, section 4.3: embedding dropout, final norm and output layer.
    EXPECT_EQ(saved_bytes(applicable(stack.saved_embedding, model, workload.attention), model,
                          workload, sequence),
              exact(sbh / t));
    EXPECT_EQ(saved_bytes(stack.saved_head, model, workload, sequence), exact(4 * sbh / t));
  }
}

TEST(SavedBytes, FlashAttentionKeepsALogSumExpInsteadOfTheCore) {
  const Stack stack = find_stack("megatron-2022");
  const ModelSpec model = gpt(24, 4096, 32);
  Workload workload{.seq = 4096, .attention = AttentionKind::unfused};
  const ParallelPlan plan = plan_of(2, 4, true);
  const double without_core = layer_bytes(stack, model, workload, plan, false);
  workload.attention = AttentionKind::flash;
  EXPECT_EQ(layer_bytes(stack, model, workload, plan), without_core + 2.0 * 4096 * 32 * 4 / 4);
  EXPECT_EQ(layer_bytes(stack, model, workload, plan, false),
            layer_bytes(stack, model, workload, plan))
      << "flash attention has no core for selective recomputation to drop";
}

// 2·(norm, qkv, norm, MLP inputs: 4h) + 2·(q, kv, kv, out) + 2·(gate, up, product: 3f) +
// log-sum-exp.
TEST(SavedBytes, LlamaHasGroupedHeadsAGatedMlpAndNoMasks) {
  const Workload workload{.seq = 4096, .attention = AttentionKind::flash};
  const double tokens = 2 * 4096;
  const double kv = 8 * 128;
  const double expected = tokens * (2 * (4 * 4096 + 2 * 4096 + 2 * kv + 3 * 14336) + 4 * 32);
  const ModelSpec model = llama();
  EXPECT_EQ(layer_bytes(find_stack("megatron-2022"), model, workload, plan_of(2, 1, false)),
            expected);
  // Megatron-Core keeps one FP32 statistic a token of each RMSNorm.
  EXPECT_EQ(layer_bytes(find_stack("megatron-core"), model, workload, plan_of(2, 1, false)),
            expected + tokens * 8);
  // An eager gated MLP keeps the activated gate too.
  EXPECT_EQ(layer_bytes(find_stack("pytorch-fsdp"), model, workload, plan_of(2, 1, false)),
            expected + tokens * 2 * 14336);
}

TEST(SavedBytes, ARankHoldsAtLeastOneKvHead) {
  const Stack stack = find_stack("megatron-core");
  const Workload workload{.seq = 1024, .attention = AttentionKind::flash};
  ModelSpec model = llama();
  const double at_limit = layer_bytes(stack, model, workload, plan_of(1, 8, true));
  const double beyond = layer_bytes(stack, model, workload, plan_of(1, 16, true));
  // Everything halves but keys and values: 2 tensors of one head, 2 bytes an element.
  const double kv = 1024 * 2 * 128 * 2;
  EXPECT_EQ(beyond, (at_limit - kv) / 2 + kv);
}

TEST(SavedBytes, ContextRanksShareTokensButEveryKeyIsScored) {
  const Stack stack = find_stack("megatron-2022");
  const ModelSpec model = gpt(24, 4096, 32);
  const Workload workload{.seq = 4096};
  EXPECT_EQ(layer_bytes(stack, model, workload, plan_of(1, 2, true, 4)),
            layer_bytes(stack, model, workload, plan_of(1, 2, true)) / 4);
}

TEST(SavedBytes, F32DoublesWhatIsNotOfFixedSize) {
  const Stack stack = find_stack("megatron-2022");
  ModelSpec model = gpt(4, 256, 4);
  model.dropout = false;
  Workload workload{.seq = 128, .precision = Precision::bf16};
  const double mixed = layer_bytes(stack, model, workload, plan_of(1, 1, false));
  workload.precision = Precision::f32;
  EXPECT_EQ(layer_bytes(stack, model, workload, plan_of(1, 1, false)), 2 * mixed);
}

// FP8 recipes keep the inputs of the four linear layers quantised: 1 byte instead of 2, but the
// attention output in both formats, since flash attention needs it too.
TEST(SavedBytes, Fp8RecipesKeepQuantisedInputs) {
  const Stack stack = find_stack("megatron-core");
  const ModelSpec model = llama();
  Workload workload{.seq = 4096, .attention = AttentionKind::flash};
  const double bf16 = layer_bytes(stack, model, workload, plan_of(1, 1, false));
  for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::nvfp4}) {
    workload.precision = precision;
    EXPECT_EQ(layer_bytes(stack, model, workload, plan_of(1, 1, false)),
              bf16 - 4096.0 * (4096 + 4096 + 14336 - 4096));
  }
}

TEST(SavedBytes, AnUnknownFeatureInARowIsOurMistake) {
  SavedTensor row;
  row.when = {"magic"};
  EXPECT_THROW(applicable({row}, llama(), AttentionKind::flash), std::logic_error);
}

TEST(Stack, EveryBuiltInStackIsSoundAndNamedAsItsFile) {
  const std::vector<std::string> names = stack_names();
  EXPECT_THAT(names,
              ::testing::IsSupersetOf({"autotune", "deepspeed-zero3", "megatron-2021",
                                       "megatron-2022", "megatron-core", "megatron-deepspeed-2022",
                                       "nanotron", "pytorch-fsdp", "pytorch-fsdp2"}));
  for (const std::string& name : names) {
    const Stack stack = find_stack(name);
    EXPECT_EQ(stack.name, name);
    EXPECT_FALSE(stack.rates.empty());
    EXPECT_THAT(stack.origin, HasSubstr(name));
    const Json json =
        engine::parse_json(find_data_file("profiles/stacks", name, "stack").text, name);
    for (const auto& [key, text] : json.at("sources").items())
      EXPECT_FALSE(text.get<std::string>().empty()) << name << " " << key;
  }
}

TEST(Stack, WhatIsLegalDiffersByStack) {
  const Stack m2021 = find_stack("megatron-2021");
  EXPECT_FALSE(m2021.sequence_parallel);
  EXPECT_TRUE(m2021.interleaving);
  EXPECT_THAT(m2021.zero, ElementsAre(0));
  const Stack m2022 = find_stack("megatron-2022");
  EXPECT_TRUE(m2022.sequence_parallel && m2022.selective_recompute);
  EXPECT_EQ(m2022.default_attention(), AttentionKind::unfused);
  EXPECT_TRUE(m2022.overlaps_tensor_backward && m2022.scatters_pipeline_messages);
  EXPECT_EQ(m2022.state(Precision::bf16).gradient, 4);
  EXPECT_EQ(m2022.state(Precision::f32).optimizer, 8);
  const Stack deepspeed = find_stack("megatron-deepspeed-2022");
  EXPECT_FALSE(deepspeed.sequence_parallel || deepspeed.interleaving ||
               deepspeed.scatters_pipeline_messages);
  EXPECT_EQ(deepspeed.gradient_message_bytes, 2);
  const Stack core = find_stack("megatron-core");
  EXPECT_EQ(core.default_attention(), AttentionKind::flash);
  EXPECT_TRUE(core.context_parallel && core.kv_head_replication && core.partial_recompute);
  EXPECT_THAT(core.zero_with_pipeline, ElementsAre(0, 1));
  const Stack fsdp = find_stack("pytorch-fsdp");
  EXPECT_FALSE(fsdp.tensor_parallel || fsdp.pipeline_parallel);
  EXPECT_THAT(fsdp.zero, ElementsAre(2, 3));
  EXPECT_THAT(find_stack("autotune").precisions, ElementsAre(Precision::f32, Precision::bf16));
}

std::string error_of(const Json& json) {
  try {
    stack_from_json(json, "my-stack.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Stack, BadFilesNameEachProblem) {
  const Json sound =
      engine::parse_json(find_data_file("profiles/stacks", "megatron-2022", "stack").text, "sound");
  ASSERT_EQ(error_of(sound), "no error");
  struct Case {
    const char* pointer;  // the member to change
    Json value;           // null removes it
    const char* message;
  };
  const std::vector<Case> cases = {
      {"/saved", nullptr, "saved: is missing"},
      {"/saved/0/dim", "width", "saved[0].dim"},
      {"/saved/0/shard", nullptr, "saved[0].shard"},
      {"/saved/0/bytes", -2, "saved[0].bytes"},
      {"/saved/0/when", {"sometimes"}, "saved[0].when"},
      {"/saved/0/sharded", true, "sharded"},
      {"/memory/runtime_bytes", -1, "memory.runtime_bytes"},
      {"/memory/fragmentation", 3, "memory.fragmentation"},
      {"/memory/memory_error", nullptr, "memory.memory_error"},
      {"/memory/state_mixed/optimizer", "12", "memory.state_mixed.optimizer"},
      {"/legal/zero", Json::array(), "legal.zero"},
      {"/legal/zero", {0, 4}, "legal.zero"},
      {"/legal/zero_with_pipeline", nullptr, "legal.zero_with_pipeline"},
      {"/legal/pipeline_parallel", false, "legal.zero_with_pipeline"},
      {"/legal/tensor_parallel", false, "legal.sequence_parallel"},
      {"/legal/tensor_parallel", "yes", "legal.tensor_parallel"},
      {"/legal/precisions", {"bf17"}, "legal.precisions"},
      {"/legal/attention", {"flash"}, "legal.selective_recompute"},
      {"/legal/attention", Json::array(), "legal.attention"},
      {"/legal/vocab_multiple", 0, "legal.vocab_multiple"},
      {"/overlaps/overlaps_pipeline", nullptr, "overlaps.overlaps_pipeline"},
      {"/sources/runtime_bytes", nullptr, "sources.runtime_bytes"},
      {"/rates", nullptr, "rates"},
  };
  for (const Case& bad : cases) {
    Json json = sound;
    json[Json::json_pointer(bad.pointer)] = bad.value;
    EXPECT_THAT(error_of(json), HasSubstr(bad.message)) << bad.pointer;
  }
  const std::string all = error_of(Json::object());
  for (const char* place : {"name", "saved_head", "memory.runtime_bytes", "legal.zero", "sources"})
    EXPECT_THAT(all, HasSubstr(place));
}

TEST(Stack, AnUnknownNameIsAnsweredWithTheNearest) {
  try {
    find_stack("megatron-cor");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean megatron-core"));
  }
}

}  // namespace
}  // namespace tuner
