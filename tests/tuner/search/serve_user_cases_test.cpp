// Questions that people asked in the trackers of serving software, and what the tuner answers. Each
// row names the thread; where it leaves out the model or the machine, the nearest preset stands in.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "tuner/model/presets.h"
#include "tuner/search/serve_recommendation.h"
#include "tuner/search/serve_search.h"
#include "tuner/space/serve_rules.h"

namespace tuner {
namespace {

using engine::Violation;
using Format = ServeFormat;

struct Question {
  const char* thread;
  const char* model;
  const char* gpu;
  int gpus;
  const char* stack = "vllm";
  int64_t input = 512, output = 128;
};

ServeScenario scenario_of(const Question& question) {
  ServeScenario s;
  s.model = find_model(question.model);
  s.cluster = find_cluster(question.gpu, question.gpus);
  s.stack = find_serve_stack(question.stack);
  s.workload.input = question.input;
  s.workload.output = question.output;
  s.model.positions = std::max(s.model.positions, question.input + question.output);
  use_rates(s, ServeRatesTable::load());
  return s;
}

// ---- Plans that break a rule.

struct BrokenRow {
  Question question;
  ServePlan plan;
  const char* code;
  std::vector<std::string> nearest;
};

class BrokenPlan : public testing::TestWithParam<BrokenRow> {};

TEST_P(BrokenPlan, IsToldWithTheNearestLegalOnes) {
  const BrokenRow& row = GetParam();
  SCOPED_TRACE(row.question.thread);
  const auto found = serve_violations(scenario_of(row.question), row.plan);
  const auto broken = std::find_if(found.begin(), found.end(),
                                   [&](const Violation& v) { return v.code == row.code; });
  ASSERT_NE(broken, found.end()) << row.code;
  EXPECT_EQ(broken->nearest, row.nearest) << broken->message;
}

INSTANTIATE_TEST_SUITE_P(
    UserCases, BrokenPlan,
    testing::Values(
        BrokenRow{{"vllm-project/vllm#414: 52 heads on 3 GPUs", "llama-33b", "v100-32gb", 3},
                  {.tp = 3, .weights = Format::fp16, .kv = Format::fp16},
                  "AT0102",
                  {"tp 2"}},
        BrokenRow{{"vllm-project/vllm#2652: 52 heads on 8 GPUs", "llama-33b", "a100-80gb", 8},
                  {.tp = 8},
                  "AT0102",
                  {"tp 4"}},
        BrokenRow{{"vllm-project/vllm#596: 40 heads on 3 GPUs", "llama-2-13b", "rtx-4090", 3},
                  {.tp = 3},
                  "AT0102",
                  {"tp 2"}},
        BrokenRow{{"vllm-project/vllm#11797: 28 heads on 8 GPUs", "qwen2-7b", "a100-80gb", 8},
                  {.tp = 8},
                  "AT0102",
                  {"tp 4"}},
        BrokenRow{{"sgl-project/sglang#31799: a vocabulary of 129280 on 24 GPUs", "deepseek-v3",
                   "h200-141gb", 24, "sglang"},
                  {.tp = 24, .weights = Format::fp8},
                  "AT0108",
                  {"tp 16"}}),
    [](const auto& row) { return fmt::format("Row{}", row.index); });

// ---- What a plan needs.

struct EstimateRow {
  Question question;
  ServePlan plan;
  std::function<double(const ServeModel&, const ServePrediction&)> value;
  double low, high;
};

class Estimated : public testing::TestWithParam<EstimateRow> {};

TEST_P(Estimated, IsWhatTheThreadSays) {
  const EstimateRow& row = GetParam();
  SCOPED_TRACE(row.question.thread);
  const ServeScenario s = scenario_of(row.question);
  ASSERT_TRUE(serve_violations(s, row.plan).empty());
  const double value = row.value(ServeModel(s, row.plan), predict_serving(s, row.plan));
  EXPECT_GE(value, row.low);
  EXPECT_LE(value, row.high);
}

INSTANTIATE_TEST_SUITE_P(
    UserCases, Estimated,
    testing::Values(
        EstimateRow{{"QwenLM/Qwen3#295: 7,344 tokens of KV cache are left on a card of 24 GB",
                     "llama-2-7b", "rtx-4090", 1, "vllm", 7000, 344},
                    {.batch = 1},
                    [](const ServeModel& m, const auto&) { return m.kv_token_bytes(); },
                    512 * 1024,
                    512 * 1024},
        EstimateRow{{"NVIDIA/TensorRT-LLM#1255: 5,353 tokens/s are documented", "llama-7b",
                     "a100-80gb", 1, "tensorrt-llm@0.5", 128, 128},
                    {.batch = 256, .weights = Format::fp16, .kv = Format::fp16},
                    [](const auto&, const ServePrediction& p) { return p.tokens_per_second; },
                    0.85 * 5353,
                    1.15 * 5353},
        EstimateRow{{"NVIDIA/TensorRT-LLM#1255: 435 tokens/s need only a few sequences", "llama-7b",
                     "a100-80gb", 1, "tensorrt-llm@0.5", 128, 128},
                    {.batch = 8, .weights = Format::fp16, .kv = Format::fp16},
                    [](const auto&, const ServePrediction& p) { return p.tokens_per_second; },
                    435,
                    1000},
        EstimateRow{{"triton-inference-server/tensorrtllm_backend#59: batch · (input + output)",
                     "llama-2-13b", "a100-80gb", 2, "tensorrt-llm", 2048, 4096},
                    {.tp = 2, .batch = 4},
                    [](const ServeModel& m, const ServePrediction& p) {
                      return p.memory.kv_bytes / m.kv_token_bytes();
                    },
                    24576,
                    24576},
        EstimateRow{
            {"EleutherAI/gpt-neox#901: 41 GB of weights over 8 GPUs", "gpt-neox-20b", "a100-40gb",
             8, "fastertransformer"},
            {.tp = 8},
            [](const auto&, const ServePrediction& p) { return p.memory.weight_bytes / 1e9; },
            5.1,
            5.2},
        EstimateRow{{"llm-d/llm-d-benchmark#621: what is missing beside weights and KV cache",
                     "llama-3.3-70b", "h100-80gb", 2, "vllm", 15000, 1000},
                    {.tp = 2, .batch = 8, .weights = Format::fp8},
                    [](const auto&, const ServePrediction& p) {
                      return (p.memory.activation_bytes + p.memory.runtime_bytes) /
                             p.memory.weight_bytes;
                    },
                    0.05,
                    0.20},
        EstimateRow{{"vllm-project/vllm#12895: 61 layers on 3 stages of 8 GPUs", "deepseek-v3",
                     "a100-80gb", 24, "vllm", 2048, 2048},
                    {.tp = 8, .pp = 3, .weights = Format::bf16},
                    // The fullest stage has 21 layers; an even share would be 61 / 3.
                    [](const ServeModel& m, const ServePrediction& p) {
                      const auto all =
                          2.0 * static_cast<double>(engine::parameter_count(m.scenario().model));
                      return p.memory.weight_bytes / (all / 24);
                    },
                    1.05,
                    1.12}),
    [](const auto& row) { return fmt::format("Row{}", row.index); });

// ---- What to choose.

const ServeCandidate& best_of(const ServeSearchResult& found) {
  EXPECT_FALSE(found.best.empty());
  return found.best.front();
}

ServeCandidate quickest(const ServeScenario& s, const ServeRestrictions& only = {}) {
  ServeBudgets budgets;
  budgets.tokens_per_second = 1;
  return best_of(search_serving(s, only, budgets));
}

struct ChoiceRow {
  Question question;
  int throughput_tp, throughput_replicas;  // of the plan with the highest throughput
  int latency_tp;                          // of the one with the lowest latency
};

class Choice : public testing::TestWithParam<ChoiceRow> {};

TEST_P(Choice, ReplicasForThroughputTensorRanksForLatency) {
  const ChoiceRow& row = GetParam();
  SCOPED_TRACE(row.question.thread);
  const ServeScenario s = scenario_of(row.question);
  const ServePlan most = best_of(search_serving(s, {}, {})).plan;
  EXPECT_EQ(most.tp, row.throughput_tp);
  EXPECT_EQ(most.replicas, row.throughput_replicas);
  EXPECT_EQ(quickest(s).plan.tp, row.latency_tp);
}

INSTANTIATE_TEST_SUITE_P(
    UserCases, Choice,
    testing::Values(
        ChoiceRow{{"vllm-project/vllm#367: 7B on 2 GPUs", "llama-2-7b", "a100-80gb", 2}, 1, 2, 2},
        ChoiceRow{
            {"vllm-project/vllm#11797: 28 heads on 8 GPUs", "qwen2-7b", "a100-80gb", 8}, 1, 8, 4}),
    [](const auto& row) { return fmt::format("Row{}", row.index); });

// vllm-project/vllm#1435: 15B with one KV head on 8 GPUs, StarCoderBase.
TEST(ServeUserCases, EightReplicasOfAModelThatFitsOneGpu) {
  ServeScenario s = scenario_of({"", "llama-2-13b", "a100-80gb", 8});
  s.model.layers = 40;
  s.model.hidden = 6144;
  s.model.heads = 48;
  s.model.kv_heads = 1;
  s.model.ffn_hidden = 24576;
  s.model.gated_mlp = false;
  s.model.vocab = 49152;
  const ServePlan most = best_of(search_serving(s, {}, {})).plan;
  EXPECT_EQ(most.tp * most.pp, 1);
  EXPECT_EQ(most.replicas, 8);
}

// vllm-project/vllm#414 and #596: GPUs that tp cannot use all of; stages can.
TEST(ServeUserCases, ThreeGpusAreUsedByAPipeline) {
  const ServeScenario s = scenario_of({"", "llama-33b", "v100-32gb", 3});
  ServePlan plan{.pp = 3, .weights = Format::fp16, .kv = Format::fp16};
  EXPECT_TRUE(serve_violations(s, plan).empty());
  EXPECT_TRUE(predict_serving(s, plan).fits);
  plan = {.tp = 2, .weights = Format::fp16, .kv = Format::fp16};
  EXPECT_FALSE(predict_serving(s, plan).fits) << "65 GB on two cards of 32";
}

// vllm-project/vllm#2280: 70B on 4 cards of 48 GB without NVLink; every division of 4 fits.
TEST(ServeUserCases, EveryDivisionOfFourCardsIsCompared) {
  const ServeScenario s = scenario_of({"", "llama-2-70b", "l40s", 4});
  for (const auto& [tp, pp] : {std::pair(4, 1), std::pair(2, 2), std::pair(1, 4)}) {
    ServeRestrictions only;
    only.tp = {tp};
    only.pp = {pp};
    const ServeCandidate best = quickest(s, only);
    EXPECT_GT(best.predicted.kv_token_capacity, 640) << "TP " << tp << " PP " << pp;
  }
  EXPECT_EQ(quickest(s).plan.tp, 4) << "for latency";
}

}  // namespace
}  // namespace tuner
