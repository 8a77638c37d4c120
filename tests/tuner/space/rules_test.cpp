// Rules: each has a case with its code, its message, and a way out that works.
#include "tuner/space/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <set>

#include "engine/base/errors.h"
#include "tests/support/scenarios.h"
#include "tuner/space/codes.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;
using engine::Violation;
using test_support::codes_of;
using test_support::gpt;
using test_support::Request;
using test_support::scenario_for;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Recompute kNone{Recompute::Mode::none, 0};
constexpr Recompute kSelective{Recompute::Mode::selective, 0};
constexpr Recompute kFull{Recompute::Mode::full, 0};

// A plan under its scenario and the framework's options: what a suggestion may change.
struct Setting {
  Scenario scenario;
  ParallelPlan plan;
  FrameworkOptions options;
};

std::vector<int> numbers_in(const std::string& text) {
  std::vector<int> numbers;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    int value = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), value);
    if (error == std::errc{}) numbers.push_back(value);
    at = error == std::errc{} ? end : at + 1;
  }
  return numbers;
}

// Does what a suggestion says, as its reader would.
void follow(const std::string& suggestion, Setting& s) {
  const auto starts = [&](const char* word) { return suggestion.starts_with(word); };
  const std::vector<int> numbers = numbers_in(suggestion);
  ParallelPlan& plan = s.plan;
  if (starts("drop --distribute")) return void(s.options.distribute_saved_activations = false);
  if (starts("drop --offload")) return void(s.options.offload_activations = false);
  if (starts("sp off")) return void(plan.sp = false);
  if (starts("sp on")) return void(plan.sp = true);
  if (starts("recompute"))
    return void(plan.recompute = engine::parse_recompute(suggestion.substr(10)));
  if (starts("layers per stage")) return void(plan.layers_per_stage = numbers);
  for (size_t i = 0; i < engine::kPrecisionNames.size(); ++i)
    if (suggestion == engine::kPrecisionNames[i])
      return void(s.scenario.workload.precision = static_cast<Precision>(i));
  if (starts("flash")) return void(s.scenario.workload.attention = engine::AttentionKind::flash);
  if (starts("unfused"))
    return void(s.scenario.workload.attention = engine::AttentionKind::unfused);
  ASSERT_EQ(numbers.size(), 1U) << "a suggestion that nobody can follow: " << suggestion;
  const int value = numbers[0];
  if (suggestion.ends_with("GPUs"))
    s.scenario.cluster.gpus = value;
  else if (suggestion.ends_with("layers on every stage"))
    plan.layers_per_stage.clear();
  else if (starts("seq "))
    s.scenario.workload.seq = value;
  else if (starts("tp "))
    plan.tp = value;
  else if (starts("pp "))
    plan.pp = value, plan.layers_per_stage.clear();
  else if (starts("vpp "))
    plan.vpp = value;
  else if (starts("dp "))
    plan.dp = value;
  else if (starts("cp "))
    plan.cp = value;
  else if (starts("ep "))
    plan.ep = value;
  else if (starts("mbs "))
    plan.mbs = value;
  else if (starts("gbs "))
    plan.gbs = value;
  else if (starts("zero "))
    plan.zero = value;
  else
    FAIL() << "a suggestion that nobody can follow: " << suggestion;
}

std::vector<Violation> problems_of(const Setting& s) {
  std::vector<Violation> all = scenario_violations(s.scenario);
  for (Violation& one : violations(s.scenario, s.plan, s.options)) all.push_back(std::move(one));
  return all;
}

struct RuleCase {
  std::string code;
  std::string message;  // a part of it
  Request request;
  ParallelPlan plan;
  FrameworkOptions options = {};
};

const std::string kLlama70 = "llama-3.1-70b", kLlama405 = "llama-3.1-405b";
const std::string kCore = "megatron-core", kH100 = "h100-80gb";

// Numbers in brackets are those of the rules of Megatron's argument checks.
const std::vector<RuleCase> kCases = {
    // [1] world = tp · pp · cp · dp
    {"AT0101",
     "tp 8 · pp 4 · cp 1 · dp 2 = 64 ranks, but the cluster has 128 GPUs",
     {.gpus = 128, .gbs = 64},
     {.dp = 2, .tp = 8, .pp = 4, .gbs = 64}},
    {"AT0101",
     "24 ranks, but the cluster has 64 GPUs",
     {.gpus = 64, .gbs = 64},
     {.dp = 1, .tp = 8, .pp = 3, .gbs = 64}},
    // [2] heads % tp
    {"AT0102",
     "28 attention heads cannot be divided by tp 8",
     {.model = "qwen2-7b", .gpu = kH100, .gpus = 8, .stack = kCore, .gbs = 8},
     {.tp = 8, .gbs = 8}},
    // [3] KV heads, older and newer releases
    {"AT0103",
     "8 KV heads cannot be divided by tp 16, and this stack does not replicate them",
     {.model = kLlama70, .gpus = 16, .gbs = 8},
     {.tp = 16, .gbs = 8}},
    {"AT0103",
     "2 KV heads cannot be divided by tp 7, nor replicated evenly",
     {.model = "qwen2.5-0.5b", .gpu = kH100, .gpus = 7, .stack = kCore, .gbs = 8},
     {.tp = 7, .gbs = 8}},
    // [4] gbs % (mbs · dp)
    {"AT0104",
     "global batch 100 is no multiple of mbs 3 · dp 2 = 6",
     {.gpus = 16, .gbs = 100},
     {.dp = 2, .tp = 8, .mbs = 3, .gbs = 100}},
    {"AT0104",
     "global batch 7 is no multiple of mbs 1 · dp 2 = 2",
     {.gpus = 16, .gbs = 7},
     {.dp = 2, .tp = 8, .gbs = 7}},
    // [5] the sequence over cp and tp
    {"AT0105",
     "sequence 2050 is no multiple of 2 · cp = 4",
     {.model = kLlama70, .gpu = kH100, .gpus = 16, .stack = kCore, .gbs = 8, .seq = 2050},
     {.tp = 8, .cp = 2, .gbs = 8}},
    {"AT0106",
     "sequence 2044 is no multiple of 8",
     {.gpus = 8, .gbs = 8, .seq = 2044},
     {.tp = 8, .sp = true, .gbs = 8}},
    {"AT0106",
     "sequence 2056 is no multiple of 32, which sp at tp 8 and cp 4 needs",
     {.model = kLlama70, .gpu = kH100, .gpus = 32, .stack = kCore, .gbs = 8, .seq = 2056},
     {.tp = 8, .cp = 4, .sp = true, .gbs = 8}},
    // [6] and [7] layers over pp and vpp, also where no uneven list helps
    {"AT0112",
     "layers 96 not divisible by pp = 5",
     {.gpus = 40, .gbs = 40},
     {.tp = 8, .pp = 5, .gbs = 40}},
    {"AT0112",
     "layers 126 not divisible by pp·vpp = 16",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .vpp = 2, .gbs = 64}},
    {"AT0112",
     "layers 126 not divisible by pp = 8",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .gbs = 64}},
    {"AT0114",
     "do not place the 126 layers",
     {.model = kLlama405, .gpu = kH100, .gpus = 64, .stack = kCore, .gbs = 64},
     {.tp = 8, .pp = 8, .gbs = 64, .layers_per_stage = {16, 16, 16, 16, 16, 16, 16, 16}}},
    {"AT0114",
     "as megatron-2022 can",
     {.gpus = 40, .gbs = 40},
     {.tp = 8, .pp = 5, .gbs = 40, .layers_per_stage = {18, 20, 20, 20, 18}}},
    {"AT0114",
     "do not place the 96 layers of the model on 4 stages",
     {.gpus = 32, .gbs = 40},
     {.tp = 8, .pp = 4, .gbs = 40, .layers_per_stage = {24, 24, 24, 24, 0}}},
    // [7] interleaving needs stages
    {"AT0109",
     "interleaving needs pp ≥ 3 in megatron-2022, not pp 2",
     {.gpus = 16, .gbs = 64},
     {.tp = 8, .pp = 2, .vpp = 2, .gbs = 64}},
    {"AT0109",
     "interleaving needs pp ≥ 2 in megatron-core, not pp 1",
     {.gpus = 8, .stack = kCore, .gbs = 64},
     {.tp = 8, .vpp = 2, .gbs = 64}},
    // [8] groups of micro-batches, older and newer releases
    {"AT0110",
     "in groups of pp 4, but there are 6 of them",
     {.gpus = 32, .gbs = 6},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 6}},
    {"AT0110",
     "in groups of pp 4, but there are 3 of them",
     {.gpus = 32, .stack = kCore, .gbs = 3},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 3}},
    {"AT0111",
     "3 micro-batches do not fill 4 pipeline stages",
     {.model = kLlama70, .gpu = kH100, .gpus = 32, .stack = "pytorch-fsdp2", .gbs = 3},
     {.tp = 8, .pp = 4, .zero = 0, .gbs = 3}},
    // [9] recomputation
    {"AT0113",
     "full:13 recomputes more layers than the 12 of a stage chunk",
     {.gpus = 32, .gbs = 64},
     {.tp = 8, .pp = 4, .vpp = 2, .gbs = 64, .recompute = {Recompute::Mode::full, 13}}},
    // [10] to [12], [15] options of frameworks
    {"AT0140",
     "needs tp > 1",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .sp = true, .gbs = 8, .recompute = kFull},
     {.distribute_saved_activations = true}},
    {"AT0140",
     "full recomputation",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8},
     {.distribute_saved_activations = true}},
    {"AT0116",
     "sequence parallelism needs tp > 1",
     {.gpus = 8, .gbs = 8},
     {.dp = 8, .sp = true, .gbs = 8}},
    {"AT0141",
     "tp-comm-overlap needs sequence parallelism",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8},
     {.tensor_overlap = true}},
    {"AT0142",
     "excludes a pipeline and recomputation",
     {.gpus = 16, .gbs = 8},
     {.tp = 8, .pp = 2, .gbs = 8},
     {.offload_activations = true}},
    {"AT0142",
     "excludes a pipeline and recomputation",
     {.gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = kSelective},
     {.offload_activations = true}},
    // [14] experts on a dense model
    {"AT0132",
     "ep 2 on a dense model",
     {.gpus = 16, .gbs = 8},
     {.dp = 2, .tp = 8, .ep = 2, .gbs = 8}},
    // [17] positions
    {"AT0115",
     "sequence 4096 is longer than the 2048 positions",
     {.gpus = 8, .gbs = 8, .seq = 4096},
     {.tp = 8, .gbs = 8}},
    // Widths and vocabularies
    {"AT0108",
     "vocabulary 32001 cannot be divided by tp 2, and this stack does not pad it",
     {.model = "vocabulary", .gpu = kH100, .gpus = 2, .stack = "nanotron", .gbs = 8},
     {.tp = 2, .gbs = 8}},
    {"AT0107",
     "MLP width 4100 cannot be divided by tp 8",
     {.model = "width", .gpus = 8, .gbs = 8},
     {.tp = 8, .gbs = 8}},
    // What a stack lacks
    {"AT0120",
     "tensor parallelism",
     {.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8},
     {.tp = 8, .zero = 0, .gbs = 8}},
    {"AT0121",
     "pipeline parallelism",
     {.gpus = 8, .stack = "deepspeed-zero3", .gbs = 8},
     {.pp = 8, .gbs = 8}},
    {"AT0122", "context parallelism", {.gpus = 16, .gbs = 8}, {.tp = 8, .cp = 2, .gbs = 8}},
    {"AT0123",
     "sequence parallelism",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8},
     {.tp = 8, .sp = true, .gbs = 8}},
    {"AT0124",
     "interleaving",
     {.model = kLlama70, .gpu = kH100, .gpus = 16, .stack = "nanotron", .gbs = 8},
     {.tp = 8, .pp = 2, .vpp = 2, .gbs = 8}},
    {"AT0125",
     "selective recomputation",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = kSelective}},
    {"AT0126",
     "only some layers",
     {.model = kLlama70, .gpu = kH100, .gpus = 8, .stack = "nanotron", .gbs = 8},
     {.tp = 8, .gbs = 8, .recompute = {Recompute::Mode::full, 3}}},
    {"AT0127",
     "ZeRO 3 is not part of the stack megatron-2022",
     {.gpus = 8, .gbs = 8},
     {.dp = 8, .zero = 3, .gbs = 8}},
    {"AT0127",
     "ZeRO 0 is not part of the stack pytorch-fsdp",
     {.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8},
     {.dp = 8, .gbs = 8}},
    {"AT0128",
     "ZeRO 2 cannot be combined with a pipeline (pp 4)",
     {.gpus = 64, .stack = kCore, .gbs = 8},
     {.dp = 2, .tp = 8, .pp = 4, .zero = 2, .gbs = 8}},
    {"AT0129",
     "has no fp8 arithmetic",
     {.gpus = 8, .stack = kCore, .gbs = 8, .precision = Precision::fp8},
     {.tp = 8, .gbs = 8}},
    {"AT0130",
     "the stack megatron-2022 does not train in fp8",
     {.gpu = kH100, .gpus = 8, .gbs = 8, .precision = Precision::fp8},
     {.tp = 8, .gbs = 8}},
    {"AT0131",
     "the stack megatron-2021 has no flash attention",
     {.gpus = 8, .stack = "megatron-2021", .gbs = 8, .attention = engine::AttentionKind::flash},
     {.tp = 8, .gbs = 8}},
};

Setting setting_of(const RuleCase& one) {
  Request request = one.request;
  if (request.model == "width" || request.model == "vocabulary") request.model = "gpt3-1.3b";
  Setting s{scenario_for(request), one.plan, one.options};
  if (one.request.model == "width") s.scenario.model.ffn_hidden = 4100;
  if (one.request.model == "vocabulary") s.scenario.model.vocab = 32001;
  return s;
}

TEST(Rules, EachHasItsCodeItsMessageAndAWayOut) {
  for (const RuleCase& one : kCases) {
    const Setting setting = setting_of(one);
    const std::vector<Violation> found = problems_of(setting);
    const auto violation = std::ranges::find(found, one.code, &Violation::code);
    ASSERT_NE(violation, found.end()) << one.code << " " << describe(one.plan);
    EXPECT_THAT(violation->message, HasSubstr(one.message)) << one.code;
    EXPECT_THAT(violation->nearest, testing::Not(IsEmpty())) << one.code << " " << one.message;
    for (const std::string& suggestion : violation->nearest) {
      Setting mended = setting;
      follow(suggestion, mended);
      EXPECT_THAT(codes_of(problems_of(mended)), testing::Not(Contains(one.code)))
          << suggestion << " for " << violation->message;
    }
  }
}

TEST(Rules, ExpertsOfAMixture) {
  Setting s{
      scenario_for({.model = "mixtral-8x7b", .gpu = kH100, .gpus = 32, .stack = kCore}), {}, {}};
  s.plan = {.dp = 4, .tp = 8, .ep = 3, .gbs = 1536};
  EXPECT_THAT(codes_of(problems_of(s)), ElementsAre("AT0301", "AT0132", "AT0134", "AT0133"));
  s.plan.ep = 4;
  s.plan.sp = true;
  EXPECT_THAT(codes_of(problems_of(s)), ElementsAre("AT0301"));
}

TEST(Rules, EveryCodeIsDocumentedOnceAndInOrder) {
  std::set<std::string> documented;
  std::string before;
  for (const RuleDocument& rule : rule_documents()) {
    EXPECT_LT(before, std::string(rule.code));
    before = rule.code;
    documented.insert(before);
    EXPECT_FALSE(rule.title.empty() || rule.fix.empty()) << rule.code;
  }
  std::set<std::string> tested = {"AT0133", "AT0134", "AT0201", "AT0301"};
  for (const RuleCase& one : kCases) tested.insert(one.code);
  EXPECT_EQ(tested, documented);
}

TEST(Rules, AllViolationsAtOnce) {
  const Scenario s = scenario_for({.gpus = 64, .gbs = 10, .seq = 2044});
  const ParallelPlan plan{.dp = 3,
                          .tp = 7,
                          .pp = 5,
                          .vpp = 2,
                          .cp = 2,
                          .ep = 2,
                          .sp = true,
                          .zero = 3,
                          .mbs = 3,
                          .gbs = 10};
  EXPECT_THAT(codes_of(violations(s, plan, {.distribute_saved_activations = true})),
              ElementsAre("AT0101", "AT0102", "AT0103", "AT0107", "AT0122", "AT0106", "AT0104",
                          "AT0112", "AT0128", "AT0132", "AT0140"));
  // A stack without tensor parallelism has no SP either: both are told.
  const Scenario fsdp = scenario_for({.gpus = 8, .stack = "pytorch-fsdp", .gbs = 8});
  EXPECT_THAT(codes_of(violations(fsdp, {.tp = 8, .sp = true, .gbs = 8})),
              ElementsAre("AT0120", "AT0123"));
  // Too few stages to interleave, and micro-batches in no groups.
  const Scenario old = scenario_for({.gpus = 16, .gbs = 3});
  EXPECT_THAT(codes_of(violations(old, {.tp = 8, .pp = 2, .vpp = 2, .gbs = 3})),
              ElementsAre("AT0109", "AT0110"));
}

// No number of a plan is too large for a clear answer.
TEST(Rules, AbsurdDegrees) {
  const Scenario s = scenario_for({.gpus = 1'000'000, .stack = kCore, .gbs = 1'000'000'000});
  constexpr int kMost = 1'000'000;
  const ParallelPlan plan{.dp = kMost,
                          .tp = kMost,
                          .pp = kMost,
                          .vpp = kMost,
                          .cp = kMost,
                          .sp = true,
                          .zero = 3,
                          .mbs = 1'000'000'000,
                          .gbs = 1'000'000'000,
                          .recompute = {Recompute::Mode::full, 2'000'000'000}};
  const std::vector<Violation> found = violations(s, normalized(s, plan));
  EXPECT_THAT(codes_of(found), testing::IsSupersetOf({"AT0101", "AT0102", "AT0112"}));
  for (const Violation& violation : found)
    EXPECT_THAT(violation.message, testing::Not(HasSubstr("-"))) << violation.message;
}

// ---- Which tensor-parallel and pipeline degrees published models take.

struct DegreesRow {
  const char* model;
  std::vector<int64_t> by_heads;      // tp that divides the heads and the MLP, replicating KV heads
  std::vector<int64_t> without_copy;  // tp of stacks that do not replicate
  std::vector<int64_t> pp;            // that divide the layers
};
const DegreesRow kDegrees[] = {
    {"llama-3.1-8b", {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8}, {1, 2, 4, 8, 16, 32}},
    {"llama-3.1-70b", {1, 2, 4, 8, 16, 32, 64}, {1, 2, 4, 8}, {1, 2, 4, 5, 8, 10, 16, 20, 40, 80}},
    {"llama-3.1-405b",
     {1, 2, 4, 8, 16, 32, 64, 128},
     {1, 2, 4, 8},
     {1, 2, 3, 6, 7, 9, 14, 18, 21, 42, 63, 126}},
    // tp 7 and 14 divide the 28 heads, but not the 4 KV heads, nor 18,944 by 7.
    {"qwen2-7b", {1, 2, 4}, {1, 2, 4}, {1, 2, 4, 7, 14, 28}},
    {"qwen2.5-0.5b", {1, 2}, {1, 2}, {1, 2, 3, 4, 6, 8, 12, 24}},
    {"gpt2-xl", {1, 5, 25}, {1, 5, 25}, {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}},
    {"gpt3-175b",
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96},
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96},
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96}},
    {"bloom-176b",
     {1, 2, 4, 7, 8, 14, 16, 28, 56, 112},
     {1, 2, 4, 7, 8, 14, 16, 28, 56, 112},
     {1, 2, 5, 7, 10, 14, 35, 70}},
    {"phi-2", {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16, 32}},
};

TEST(Rules, DegreesOfPublishedModels) {
  for (const DegreesRow& row : kDegrees)
    for (const bool replicates : {true, false}) {
      Scenario s = scenario_for({.model = row.model, .gpu = kH100, .gpus = 128, .stack = kCore});
      s.stack.kv_head_replication = replicates;
      s.stack.uneven_stages = false;
      std::vector<int64_t> tps, pps;
      for (int degree = 1; degree <= 128; ++degree) {
        ParallelPlan plan{.tp = degree};
        if (first_axis_violation(s, plan).empty()) tps.push_back(degree);
        if (layers_are_legal(s, {.pp = degree})) pps.push_back(degree);
      }
      EXPECT_EQ(tps, replicates ? row.by_heads : row.without_copy) << row.model << replicates;
      EXPECT_EQ(pps, row.pp) << row.model;
    }
}

// 61 layers are a prime number: every pipeline of DeepSeek-V3 is uneven. BLOOM ran 70 layers on 12
// stages with the two embeddings in place of a layer each.
TEST(Rules, UnevenPipelines) {
  Scenario s = scenario_for({.stack = kCore});
  s.model = gpt(61, 1024, 16);
  for (int pp = 2; pp <= 61; ++pp) {
    EXPECT_EQ(layers_are_legal(s, {.pp = pp}), pp == 61);
    if (pp == 61) continue;
    const auto layouts = layer_layouts(s.stack, 61, pp);
    ASSERT_FALSE(layouts.empty()) << pp;
    for (const LayerLayout& layout : layouts)
      EXPECT_TRUE(layers_are_legal(
          s, {.pp = pp, .vpp = layout.vpp, .layers_per_stage = layout.layers_per_stage}))
          << "pp " << pp << " vpp " << layout.vpp;
  }
  s.model = gpt(70, 1024, 16);
  std::vector<int> bloom(12, 6);
  bloom.front() = bloom.back() = 5;
  EXPECT_TRUE(layers_are_legal(s, {.pp = 12, .layers_per_stage = bloom}));
}

// ---- Normal forms.

TEST(Rules, WhatHasNoEffectIsSwitchedOff) {
  const Scenario s = scenario_for({.model = "gpt3-175b", .gpus = 8, .stack = kCore, .gbs = 64});
  EXPECT_FALSE(normalized(s, {.dp = 8, .sp = true}).sp);
  EXPECT_TRUE(normalized(s, {.tp = 8, .sp = true}).sp);
  EXPECT_EQ(normalized(s, {.tp = 8, .zero = 3}).zero, 0);
  EXPECT_EQ(normalized(s, {.cp = 8, .zero = 3}).zero, 3);
  EXPECT_EQ(normalized(s, {.recompute = kSelective}).recompute, kNone);  // fused attention
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 12}}).recompute, kFull);
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 11}}).recompute.layers,
            11);
  EXPECT_THAT(normalized(s, {.pp = 2, .layers_per_stage = {48, 48}}).layers_per_stage, IsEmpty());
  EXPECT_THAT(normalized(s, {.pp = 2, .layers_per_stage = {47, 49}}).layers_per_stage,
              ElementsAre(47, 49));
  // The longest chunk decides: with 13 layers nothing of a stage is left.
  const std::vector<int> uneven = {11, 12, 12, 12, 12, 12, 12, 13};
  EXPECT_EQ(
      normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 13}, .layers_per_stage = uneven})
          .recompute,
      kFull);
  EXPECT_EQ(
      normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 12}, .layers_per_stage = uneven})
          .recompute.layers,
      12);
  // More than every layer is no normal form, it is a violation.
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 14}}).recompute.layers,
            14);
}

}  // namespace
}  // namespace tuner
