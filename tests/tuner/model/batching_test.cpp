// Batching: static batches in closed form, and simulations against what must hold for any queue.
#include "tuner/model/batching.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tuner/model/batching_simulation.h"
#include "tuner/model/presets.h"

namespace tuner {
namespace {

ServeScenario scenario_of(Arrival arrival, const std::string& stack = "tensorrt-llm") {
  ServeScenario s;
  s.model = find_model("llama-3.1-8b");
  s.cluster = find_cluster("h100-80gb", 1);
  s.stack = find_serve_stack(stack);
  s.workload.arrival = arrival;
  s.workload.input = 512;
  s.workload.output = 128;
  use_rates(s, ServeRatesTable::load());
  return s;
}

double sum_of(const ServePrediction& p) {
  return p.prefill.total() + p.decode.total() + p.waiting_seconds;
}

TEST(Batching, AStaticBatchIsItsPrefillAndItsSteps) {
  const ServeScenario s = scenario_of(Arrival::static_batch);
  ServePlan plan;
  plan.batch = 16;
  const ServeModel model(s, plan);
  const ServePrediction p = predict_serving(s, plan);
  EXPECT_DOUBLE_EQ(p.ttft_seconds, model.seconds({0, 0, 16, 512}));
  EXPECT_NEAR(p.tpot_seconds, model.seconds({16, 512 + 64, 0, 0}), 1e-12);
  EXPECT_NEAR(p.latency_seconds, p.ttft_seconds + 127 * p.tpot_seconds, 1e-12);
  EXPECT_NEAR(p.tokens_per_second, 16 * 128 / p.latency_seconds, 1e-6);
}

TEST(Batching, StagesTakeTurnsWithMicroBatches) {
  ServeScenario s = scenario_of(Arrival::static_batch, "autotune");
  s.cluster = find_cluster("a100-80gb", 4);
  use_rates(s, ServeRatesTable::load());
  ServePlan plan;
  plan.pp = 4;
  plan.batch = 32;
  const ServeModel model(s, plan);
  const ServePrediction p = predict_serving(s, plan);
  EXPECT_NEAR(p.ttft_seconds, model.seconds({0, 0, 8, 512}) * (4 + 4 - 1) / 4, 1e-12);
  EXPECT_NEAR(p.tpot_seconds, model.seconds({8, 576, 0, 0}), 1e-12);
}

// FasterTransformer splits a batch where the stages divide it, and halves parts of more than 1,024
// tokens.
TEST(Batching, PartsOfABatchAreBoundedInTokens) {
  ServeScenario s = scenario_of(Arrival::static_batch, "fastertransformer");
  s.cluster = find_cluster("a100-80gb", 4);
  use_rates(s, ServeRatesTable::load());
  ServePlan plan;
  plan.pp = 4;
  const ServeModel model(s, plan);
  const auto prediction = [&](int64_t batch) {
    plan.batch = batch;
    return predict_serving(s, plan);
  };
  // 32 prompts of 512 tokens pass in 16 parts of 2, their next tokens in 4 parts of 8.
  EXPECT_NEAR(prediction(32).ttft_seconds, model.seconds({0, 0, 2, 512}) * (16 + 4 - 1) / 4, 1e-12);
  EXPECT_NEAR(prediction(32).tpot_seconds, model.seconds({8, 576, 0, 0}), 1e-12);
  // 4 stages do not divide 6.
  EXPECT_NEAR(prediction(6).ttft_seconds, model.seconds({0, 0, 3, 512}) * (2 + 4 - 1) / 4, 1e-12);
  EXPECT_NEAR(prediction(6).tpot_seconds, model.seconds({6, 576, 0, 0}), 1e-12);
}

TEST(Batching, PartsSumToTheLatency) {
  ServePlan plan;
  plan.batch = 32;
  for (const Arrival arrival : {Arrival::isolated, Arrival::static_batch, Arrival::closed_loop,
                                Arrival::poisson, Arrival::saturated}) {
    ServeScenario s = scenario_of(arrival);
    s.workload.concurrency = 40;
    s.workload.requests_per_second = 10;
    const ServePrediction p = predict_serving(s, plan);
    EXPECT_NEAR(sum_of(p), p.latency_seconds, 1e-9 * p.latency_seconds) << name_of(arrival);
    EXPECT_GE(p.waiting_seconds, 0);
    EXPECT_TRUE(p.fits);
  }
}

TEST(Batching, OneClientWaitsForNobody) {
  ServeScenario alone = scenario_of(Arrival::isolated), loop = scenario_of(Arrival::closed_loop);
  loop.workload.concurrency = 1;
  const ServePrediction a = predict_serving(alone, {}), b = predict_serving(loop, {});
  const ServeRates& rates = loop.rates_of(ServeFormat::bf16);
  const double server = rates.server_seconds + rates.server_client_seconds;
  EXPECT_NEAR(b.ttft_seconds, a.ttft_seconds + server, 1e-9);
  EXPECT_NEAR(b.latency_seconds, a.latency_seconds + server, 0.002 * a.latency_seconds);
}

TEST(Batching, RareRequestsMeetNobody) {
  const ServeScenario alone = scenario_of(Arrival::isolated);
  ServeScenario rare = scenario_of(Arrival::poisson);
  rare.workload.requests_per_second = 1e-4;
  ServePlan plan;
  plan.batch = 64;
  const ServePrediction p = predict_serving(rare, plan);
  EXPECT_NEAR(p.tpot_seconds, predict_serving(alone, {}).tpot_seconds, 1e-5);
  EXPECT_TRUE(p.sustained);
}

TEST(Batching, LoadOnlyAddsLatencyAndQueuesGrow) {
  ServePlan plan;
  plan.batch = 64;
  double before = 0;
  for (const double rate : {0.5, 4.0, 16.0, 32.0}) {
    ServeScenario s = scenario_of(Arrival::poisson);
    s.workload.requests_per_second = rate;
    const ServePrediction p = predict_serving(s, plan);
    EXPECT_GT(p.latency_seconds, before);
    EXPECT_LE(p.latency->p50, p.latency->p90);
    EXPECT_LE(p.latency->p90, p.latency->p99);
    before = p.latency_seconds;
  }
  ServeScenario flood = scenario_of(Arrival::poisson);
  flood.workload.requests_per_second = 1e4;
  EXPECT_FALSE(predict_serving(flood, plan).sustained);
}

TEST(Batching, ThroughputOfTheLoopApproachesTheFullQueue) {
  ServePlan plan;
  plan.batch = 64;
  ServeScenario s = scenario_of(Arrival::closed_loop);
  s.workload.concurrency = 64;
  const double loop = predict_serving(s, plan).tokens_per_second;
  const double full = saturated_tokens_per_second(ServeModel(s, plan), 64);
  EXPECT_NEAR(loop, full, 0.25 * full);
}

TEST(Simulation, EveryRequestIsAnsweredInOrder) {
  const ServeScenario s = scenario_of(Arrival::closed_loop);
  const ServeModel model(s, {});
  const Simulation loop = simulate_closed_loop(model, 8, 20, 60, 0.01);
  ASSERT_EQ(loop.requests.size(), 60u);
  double first = 0;
  for (const SimulatedRequest& request : loop.requests) {
    EXPECT_LT(request.arrival, request.first_token);
    EXPECT_LT(request.first_token, request.finish);
    EXPECT_GE(request.first_token, first) << "first come, first served";
    first = request.first_token;
  }
  EXPECT_LE(loop.mean_running, 8);
}

// Three prompts of 6,000 tokens and iterations of 8,192: two at a time do not fit as wholes, but
// where prompts are split the second one begins with the first, as does the third with the second.
TEST(Simulation, PromptsAreSplitWhereTheStackDoes) {
  struct Step {
    double running, prompt_tokens;
  };
  // Each iteration ends one prompt.
  const auto expect_iterations = [](const char* stack, const std::vector<Step>& steps) {
    ServeScenario s = scenario_of(Arrival::closed_loop, stack);
    s.workload.input = 6000;
    const ServeModel model(s, {});
    const Simulation loop = simulate_closed_loop(model, 8, 3, 3, 0);
    double now = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto [running, tokens] = steps[i];
      now += model.seconds({running, running > 0 ? 6000.0 : 0, tokens / 6000, 6000});
      EXPECT_NEAR(loop.requests[i].first_token, now, 0.001 * now) << stack << i;
    }
  };
  expect_iterations("tensorrt-llm", {{0, 6000}, {1, 6000}, {2, 6000}});
  expect_iterations("vllm", {{0, 8192}, {1, 8191}, {2, 18000 - 8192 - 8191}});
}

TEST(Simulation, RequestsOnTheirWayMissIterations) {
  const ServeScenario s = scenario_of(Arrival::closed_loop);
  const ServeModel model(s, {});
  const double prompt = model.seconds({0, 0, 1, 512});
  const Simulation alone = simulate_closed_loop(model, 8, 1, 2, 0.5);
  EXPECT_NEAR(alone.requests[1].first_token - alone.requests[1].arrival, 0.5 + prompt, 1e-9);
  // While another generates, a request waits for the end of the iteration that runs when it comes.
  const std::vector<double> arrivals = {0, 2 * prompt};
  const Simulation late = simulate_arrivals(model, 8, arrivals);
  const double wait = late.requests[1].first_token - late.requests[1].arrival - prompt;
  EXPECT_GT(wait, 0);
  EXPECT_LT(wait, 3 * model.seconds({1, 576, 0, 0}));
}

TEST(Simulation, ArrivalsAreTheSameEveryTimeAndHaveTheirMean) {
  const auto times = poisson_arrivals(5, 4000);
  EXPECT_EQ(times, poisson_arrivals(5, 4000));
  EXPECT_NEAR(times.back(), 800, 40);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

TEST(Batching, ABatchWithoutRoomTakesTurns) {
  ServeScenario s = scenario_of(Arrival::static_batch, "vllm");
  s.cluster = find_cluster("a100-40gb", 1);
  s.workload.input = s.workload.output = 2000;
  use_rates(s, ServeRatesTable::load());
  ServePlan few, many;
  few.batch = static_cast<int64_t>(ServeModel(s, few).most_sequences());
  many.batch = 3 * few.batch;
  const ServePrediction a = predict_serving(s, few), b = predict_serving(s, many);
  EXPECT_TRUE(b.fits);
  EXPECT_NEAR(b.latency_seconds, 3 * a.latency_seconds, 0.2 * b.latency_seconds);
}

}  // namespace
}  // namespace tuner
