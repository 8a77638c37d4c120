// The serving search: budgets, the frontier, the fewest GPUs, and questions users have asked.
#include "tuner/search/serve_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tuner/model/presets.h"
#include "tuner/search/serve_recommendation.h"
#include "tuner/space/serve_rules.h"

namespace tuner {
namespace {

using testing::Contains;
using testing::HasSubstr;

ServeScenario scenario_of(const std::string& model, const std::string& gpu, int gpus,
                          const std::string& stack = "tensorrt-llm") {
  ServeScenario s;
  s.model = find_model(model);
  s.cluster = find_cluster(gpu, gpus);
  s.stack = find_serve_stack(stack);
  s.workload.input = 512;
  s.workload.output = 64;
  use_rates(s, ServeRatesTable::load());
  return s;
}

ServeBudgets latency_of(double seconds) {
  ServeBudgets budgets;
  budgets.latency_seconds = seconds;
  return budgets;
}

TEST(ServeSearch, TheBestKeepsTheBudgetAndNoMeasuredPlanOfTheSearchBeatsIt) {
  const ServeScenario s = scenario_of("175b", "a100-80gb", 8);
  const ServeBudgets budgets = latency_of(4);
  const ServeSearchResult found = search_serving(s, {}, budgets);
  ASSERT_FALSE(found.best.empty());
  const ServeCandidate& best = found.best.front();
  EXPECT_TRUE(best.meets());
  EXPECT_LE(best.predicted.latency_seconds, 4);
  for (const ServeCandidate& point : found.frontier)
    EXPECT_TRUE(point.predicted.latency_seconds > 4 ||
                point.predicted.tokens_per_second <= best.predicted.tokens_per_second);
  ServePlan larger = best.plan;
  ++larger.batch;
  EXPECT_GT(predict_serving(s, larger).latency_seconds, 4) << "the batch was not the largest";
}

TEST(ServeSearch, TheFrontierOnlyRises) {
  const ServeSearchResult found =
      search_serving(scenario_of("llama-3.1-70b", "h100-80gb", 8), {}, {});
  ASSERT_GT(found.frontier.size(), 3u);
  for (size_t i = 1; i < found.frontier.size(); ++i) {
    EXPECT_GT(found.frontier[i].predicted.latency_seconds,
              found.frontier[i - 1].predicted.latency_seconds);
    EXPECT_GT(found.frontier[i].predicted.tokens_per_second,
              found.frontier[i - 1].predicted.tokens_per_second);
  }
}

TEST(ServeSearch, AFloorOfThroughputAsksForTheLowestLatency) {
  const ServeScenario s = scenario_of("llama-3.1-70b", "h100-80gb", 8);
  ServeBudgets low, high;
  low.tokens_per_second = 100;
  high.tokens_per_second = 1500;
  const ServeCandidate quick = search_serving(s, {}, low).best.front();
  const ServeCandidate busy = search_serving(s, {}, high).best.front();
  EXPECT_TRUE(quick.meets() && busy.meets());
  EXPECT_LT(quick.predicted.latency_seconds, busy.predicted.latency_seconds);
}

TEST(ServeSearch, MoreGpusThanALoadNeedsAreNamed) {
  ServeScenario s = scenario_of("llama-3.1-8b", "h100-80gb", 8);
  s.workload.arrival = Arrival::poisson;
  s.workload.requests_per_second = 2;
  ServeBudgets budgets;
  budgets.ttft_seconds = 1;
  const ServeSearchResult found = search_serving(s, {}, budgets);
  ASSERT_TRUE(found.smallest);
  EXPECT_EQ(found.smallest->plan.gpus(), 1);
  s.workload.requests_per_second = 400;
  const ServeSearchResult more = search_serving(s, {}, budgets);
  EXPECT_TRUE(!more.smallest || more.smallest->plan.gpus() > 1);
}

TEST(ServeSearch, FormatsAreOnlyThoseThatAreAskedFor) {
  const ServeScenario s = scenario_of("llama-3.1-70b", "h100-80gb", 4);
  for (const ServeCandidate& candidate : search_serving(s, {}, {}).best)
    EXPECT_EQ(candidate.plan.weights, ServeFormat::bf16);
  ServeRestrictions only;
  only.weights = {ServeFormat::fp8};
  only.tp = {2, 4};
  for (const ServeCandidate& candidate : search_serving(s, only, {}).best) {
    EXPECT_EQ(candidate.plan.weights, ServeFormat::fp8);
    EXPECT_TRUE(candidate.plan.tp == 2 || candidate.plan.tp == 4);
  }
}

TEST(ServeRecommendation, AnImpossibleBudgetNamesTheNearestAndWhatWouldDo) {
  const ServeRecommendation r =
      recommend_serving(scenario_of("175b", "a100-80gb", 8), {}, latency_of(1.2), 0);
  ASSERT_TRUE(r.best);
  EXPECT_FALSE(r.meets_budget());
  EXPECT_EQ(r.best->plan.tp, 8);
  EXPECT_EQ(r.best->plan.batch, 1);
  EXPECT_GE(r.remedies.size(), 2u);
}

// A budget between what a degree of expert parallelism reaches and what the other one does.
TEST(ServeRecommendation, ExpertParallelismIsARestrictionThatCanBeLifted) {
  const ServeScenario s = scenario_of("mixtral-8x7b", "h100-80gb", 8);
  ServeRestrictions whole, sliced;
  whole.ep = {8};
  sliced.ep = {1};
  const auto nearest = [&](const ServeRestrictions& only) {
    return search_serving(s, only, latency_of(1e-3)).best.front().latency_seconds();
  };
  const double budget = std::sqrt(nearest(whole) * nearest(sliced));
  const ServeRestrictions& slower = nearest(whole) > nearest(sliced) ? whole : sliced;
  const ServeRecommendation r = recommend_serving(s, slower, latency_of(budget), 0);
  EXPECT_FALSE(r.meets_budget());
  EXPECT_THAT(r.remedies, Contains(HasSubstr("without the restrictions on the plan")));
}

// TensorRT-LLM 1144: 13B on four GPUs at 3 requests a second; TP answers sooner than PP.
TEST(ServeUserCases, TensorBeatsPipelineForLatencyInANode) {
  ServeScenario s = scenario_of("llama-2-13b", "a100-40gb", 4);
  s.workload.arrival = Arrival::poisson;
  s.workload.requests_per_second = 3;
  const auto latency = [&](int tp, int pp) {
    ServeRestrictions only;
    only.tp = {tp};
    only.pp = {pp};
    return search_serving(s, only, {}).best.front().predicted.latency_seconds;
  };
  EXPECT_LT(latency(4, 1), latency(2, 2));
  EXPECT_LT(latency(2, 2), latency(1, 4));
}

// vllm 31474: every rule at once, among them a vocabulary that the stack does not pad.
TEST(ServeUserCases, AVocabularyThatDoesNotDivide) {
  ServeScenario s = scenario_of("llama-3.1-70b", "h100-80gb", 6, "vllm");
  s.model.heads = 96;
  s.model.kv_heads = 12;
  s.model.vocab = 151552;
  s.model.ffn_hidden = 6 * 4096;
  ServePlan plan{.tp = 6};
  const auto broken = serve_violations(s, plan);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken.front().code, "AT0108");
  s.stack = find_serve_stack("tensorrt-llm");
  EXPECT_TRUE(serve_violations(s, plan).empty());
}

// Qwen 295: one request is longer than the KV cache that is left; the room is named.
TEST(ServeUserCases, TheRoomOfTheKvCacheIsNamed) {
  ServeScenario s = scenario_of("llama-2-7b", "rtx-4090", 1);
  s.model.positions = 32768;
  s.workload.input = 30000;
  s.workload.output = 2000;
  const ServeRecommendation r = recommend_serving(s, {}, {}, 0);
  EXPECT_FALSE(r.best);
  bool named = false;
  for (const std::string& remedy : r.remedies)
    named = named || remedy.find("tokens, and one request has 32,000") != std::string::npos;
  EXPECT_TRUE(named);
}

// TensorRT-LLM 247 and llm-d 621: activations count beside weights and KV cache.
TEST(ServeUserCases, ActivationsAreCounted) {
  ServeScenario s = scenario_of("llama-2-13b", "a100-80gb", 1, "vllm");
  ServePlan plan;
  plan.batch = 8;
  const ServePrediction p = predict_serving(s, plan);
  EXPECT_GT(p.memory.activation_bytes, 100e6);
  EXPECT_GT(p.memory.runtime_bytes, 1e9);
}

TEST(ServeRecommendation, CostIsThePriceOfTheGpusOverTheTokens) {
  const ServeScenario s = scenario_of("llama-3.1-8b", "h100-80gb", 2);
  const ServeCandidate best = search_serving(s, {}, {}).best.front();
  EXPECT_NEAR(cost_per_million_tokens(best, 2.5),
              2.5 * 2 / 3600 * 1e6 / best.predicted.tokens_per_second, 1e-9);
}

TEST(ServeRecommendation, TheContractHasItsMembers) {
  const nlohmann::json json = serve_recommendation_to_json(
      recommend_serving(scenario_of("llama-3.1-8b", "h100-80gb", 1), {}, latency_of(1), 2));
  EXPECT_EQ(json["schema"], "autotune.infer/1");
  for (const char* member : {"model", "cluster", "stack", "workload", "budgets", "search",
                             "meets_budget", "best", "runners_up", "frontier"})
    EXPECT_TRUE(json.contains(member)) << member;
  for (const char* member : {"tp", "pp", "replicas", "batch", "weights", "kv"})
    EXPECT_TRUE(json["best"]["plan"].contains(member)) << member;
  for (const char* member : {"latency_seconds", "ttft_seconds", "tpot_seconds", "tokens_per_second",
                             "tokens_per_second_per_gpu", "limit", "memory"})
    EXPECT_TRUE(json["best"]["predicted"].contains(member)) << member;
  EXPECT_TRUE(json["best"]["measured"].is_null());
}

}  // namespace
}  // namespace tuner
