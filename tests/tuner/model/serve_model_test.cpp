// The serving model against closed forms, and what must never decrease.
#include "tuner/model/serve_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/model/batching.h"
#include "tuner/model/presets.h"

namespace tuner {
namespace {

ServeScenario scenario_of(const std::string& model, const std::string& gpu = "a100-80gb",
                          const std::string& stack = "tensorrt-llm", int gpus = 8) {
  ServeScenario s;
  s.model = find_model(model);
  s.cluster = find_cluster(gpu, gpus);
  s.stack = find_serve_stack(stack);
  use_rates(s, ServeRatesTable::load());
  return s;
}

TEST(ServeModel, DecodingOneSequenceReadsTheWeightsOnce) {
  const ServeScenario s = scenario_of("175b");
  const ServePlan plan{.tp = 8};
  const ServeModel model(s, plan);
  const ServeParts parts = model.iteration({1, 1, 0, 0});
  const auto rank = engine::rank_parameters(s.model, 8, engine::padded_vocab(s.model.vocab, 1, 8));
  const double bytes = 2.0 * static_cast<double>(rank.layer * s.model.layers + rank.head);
  const double rate = s.cluster.device.memory_bytes_per_second * model.rates().gemm_bandwidth_share;
  EXPECT_NEAR(parts[ServePart::weights], bytes / rate, 0.001 * bytes / rate);
  EXPECT_EQ(parts.largest(), ServePart::weights);
}

TEST(ServeModel, TheKvCacheTakesTwoVectorsATokenAndLayer) {
  ServeScenario s = scenario_of("llama-3.1-70b", "h100-80gb");
  const auto token_bytes = [&](int tp, int pp, ServeFormat kv) {
    return ServeModel(s, {.tp = tp, .pp = pp, .kv = kv}).kv_token_bytes();
  };
  // 8 KV heads of 128, 80 layers.
  EXPECT_DOUBLE_EQ(token_bytes(1, 1, ServeFormat::bf16), 2.0 * 8 * 128 * 2 * 80);
  EXPECT_DOUBLE_EQ(token_bytes(8, 1, ServeFormat::bf16), 2.0 * 1 * 128 * 2 * 80);
  EXPECT_DOUBLE_EQ(token_bytes(16, 1, ServeFormat::bf16), token_bytes(8, 1, ServeFormat::bf16))
      << "ranks beyond the KV heads hold one each";
  EXPECT_DOUBLE_EQ(token_bytes(1, 4, ServeFormat::bf16), 2.0 * 8 * 128 * 2 * 20);
  EXPECT_DOUBLE_EQ(token_bytes(1, 1, ServeFormat::fp8), 8.0 * 128 * 2 * 80);
}

TEST(ServeModel, LatentAttentionKeepsOneVectorATokenOnEveryRank) {
  const ServeScenario s = scenario_of("deepseek-v3", "h200-141gb", "vllm");
  for (const int tp : {1, 8})
    EXPECT_DOUBLE_EQ(ServeModel(s, {.tp = tp, .weights = ServeFormat::fp8}).kv_token_bytes(),
                     (512.0 + 64) * 2 * 61);
}

TEST(ServeModel, AllExpertsAreHeldAndOnlyThoseChosenAreRead) {
  const ServeScenario s = scenario_of("mixtral-8x7b", "h100-80gb", "vllm");
  const ServePlan plan{.tp = 2};
  const ServeModel model(s, plan);
  const auto parameters = static_cast<double>(engine::parameter_count(s.model));
  EXPECT_NEAR(model.memory(1).weight_bytes, 2 * parameters / 2, 0.01 * parameters);
  const auto weights = [&](double sequences) {
    return model.iteration({sequences, 1, 0, 0})[ServePart::weights];
  };
  // One token reads two of eight experts, a few tokens nearly all.
  EXPECT_LT(weights(1), 0.5 * weights(32));
  EXPECT_NEAR(weights(64), weights(32), 0.02 * weights(32));
}

TEST(ServeModel, WholeExpertsLeaveRanksUnevenlyBusy) {
  ServeScenario s = scenario_of("qwen3-235b-a22b", "h100-80gb", "vllm");
  for (ServeRates& rates : s.rates) rates.expert_half_width = 0;
  const auto seconds = [&](int ep, double tokens) {
    const ServeParts parts = ServeModel(s, {.tp = 8, .ep = ep, .weights = ServeFormat::fp8})
                                 .iteration({0, 0, 1, tokens});
    return parts[ServePart::compute] + parts[ServePart::weights];
  };
  EXPECT_GT(seconds(8, 8), 1.1 * seconds(1, 8)) << "the busiest rank holds more of those chosen";
  EXPECT_LT(seconds(8, 1e5), 1.02 * seconds(1, 1e5)) << "many tokens spread evenly";
}

TEST(ServeModel, WindowsShortenAttention) {
  const ServeScenario s = scenario_of("gpt-oss-120b", "h100-80gb", "vllm");
  const ServeModel model(s, {.weights = ServeFormat::fp4});
  const auto kv = [&](double context) {
    return model.iteration({1, context, 0, 0})[ServePart::kv];
  };
  // Half of the layers see 128 tokens at most.
  EXPECT_NEAR(kv(12800) / kv(128), (100 + 1) / 2.0, 0.01);
}

TEST(ServeModel, OneGpuNeverCommunicates) {
  const ServeScenario s = scenario_of("llama-3.1-8b");
  const ServeParts parts = ServeModel(s, {}).iteration({32, 1000, 2, 500});
  EXPECT_EQ(parts[ServePart::communication], 0);
}

TEST(ServeModel, ParallelBlocksReduceOnceALayer) {
  ServeScenario s = scenario_of("175b");
  const ServePlan plan{.tp = 8};
  const double two = ServeModel(s, plan).iteration({4, 100, 0, 0})[ServePart::communication];
  s.model.parallel_block = true;
  const double one = ServeModel(s, plan).iteration({4, 100, 0, 0})[ServePart::communication];
  EXPECT_NEAR(one, two / 2, 1e-12);
}

TEST(ServeModel, KernelsThatWorkHeadByHeadReadTheCacheOften) {
  const ServePlan plan{.weights = ServeFormat::fp16, .kv = ServeFormat::fp16};
  const auto kv = [&](const char* model, const char* stack) {
    const ServeScenario s = scenario_of(model, "h100-80gb", stack);
    return ServeModel(s, plan).iteration({64, 2000, 0, 0})[ServePart::kv] *
           s.rates_of(plan.weights).kv_bandwidth_share;
  };
  EXPECT_GT(kv("mistral-7b", "vllm@2024"), 1.2 * kv("mistral-7b", "vllm@2025"));
  EXPECT_NEAR(kv("llama-2-7b", "vllm@2024"), kv("llama-2-7b", "vllm@2025"), 1e-12)
      << "a head of its own for every query is read once by all kernels";
}

TEST(ServeModel, MoreWorkTakesLonger) {
  const ServeScenario s = scenario_of("llama-2-70b", "h100-80gb");
  for (const int tp : {1, 2, 4, 8}) {
    const ServeModel model(s, {.tp = tp});
    for (const double size : {1.0, 7.0, 64.0, 500.0}) {
      EXPECT_LT(model.seconds({size, 500, 0, 0}), model.seconds({size * 1.5, 500, 0, 0}));
      EXPECT_LT(model.seconds({size, 500, 0, 0}), model.seconds({size, 700, 0, 0}));
      EXPECT_LT(model.seconds({size, 500, 1, 300}), model.seconds({size, 500, 1, 600}));
      EXPECT_LT(model.seconds({size, 500, 1, 300}), model.seconds({size, 500, 2, 300}));
    }
  }
}

TEST(ServeModel, NarrowWeightsDecodeFaster) {
  const ServeScenario s = scenario_of("llama-2-70b", "h100-80gb");
  const auto seconds = [&](ServeFormat weights) {
    return ServeModel(s, {.tp = 4, .weights = weights}).seconds({1, 100, 0, 0});
  };
  EXPECT_LT(seconds(ServeFormat::fp8), seconds(ServeFormat::bf16));
  EXPECT_LT(seconds(ServeFormat::int4), seconds(ServeFormat::int8));
}

TEST(ServeModel, CardsOnPcieWaitForEachOther) {
  const ServePlan plan{.tp = 8};
  const auto communication = [&](const char* gpu) {
    const ServeScenario s = scenario_of("llama-2-70b", gpu);
    return ServeModel(s, plan).iteration({16, 100, 1, 2048})[ServePart::communication];
  };
  EXPECT_GT(communication("a100-80gb-pcie"), 3 * communication("a100-80gb"));
}

TEST(ReduceCurves, SmallMessagesPayTheStartAndLargeOnesTheBandwidth) {
  const ServeScenario s = scenario_of("175b");
  const ReduceCurve curve = s.curves.curve(s.cluster.interconnect, s.cluster.device, 8);
  EXPECT_NEAR(curve.seconds(8, 1), curve.one_shot_seconds, 1e-9);
  const double large = 1e9;
  EXPECT_NEAR(curve.seconds(8, large),
              curve.ring_seconds + 2 * 7.0 / 8 * large / curve.ring_bytes_per_second, 1e-9);
  const ReduceCurve network = s.curves.curve(s.cluster.interconnect, s.cluster.device, 16);
  EXPECT_GT(network.seconds(16, 1), 5 * curve.seconds(8, 1));
}

TEST(ServeStacks, AllOfThemRead) {
  for (const char* name : {"autotune", "fastertransformer", "sglang", "tensorrt-llm", "vllm"}) {
    const ServeStack stack = find_serve_stack(name);
    EXPECT_EQ(stack.name, name);
    EXPECT_EQ(stack.release + 1, stack.releases.size());
  }
  EXPECT_EQ(find_serve_stack("vllm@2024").current().name, "2024");
  EXPECT_THROW(find_serve_stack("vlm"), engine::InputError);
  EXPECT_THROW(find_serve_stack("vllm@1999"), engine::InputError);
}

TEST(ServeRates, FactorsOfStackAndReleaseMultiply) {
  nlohmann::json json = nlohmann::json::parse(R"({"schema": "s", "constants": {
      "x": {"unit": "s", "sigma": 0.1, "values": {"default": 2, "hopper": 3},
            "factors": {"vllm": 0.5, "vllm@2024": 0.5},
            "fitted_factors": {"vllm": 1.5, "vllm@2024": 4}}}})");
  static constexpr ConstantName kNames[] = {{"x"}};
  ConstantTable table(json, "test", "s", kNames);
  const auto value = [&](std::vector<std::string> scopes) {
    return table.resolved(table.applicable(scopes)).front();
  };
  EXPECT_DOUBLE_EQ(value({"default"}), 2);
  EXPECT_DOUBLE_EQ(value({"hopper", "default"}), 3);
  EXPECT_DOUBLE_EQ(value({"vllm", "hopper", "default"}), 4.5);
  EXPECT_DOUBLE_EQ(value({"vllm@2024", "vllm", "hopper", "default"}), 18);
  EXPECT_EQ(table.to_json({})["constants"]["x"]["fitted_factors"]["vllm"], 1.5);
  table.reset_to_priors();
  EXPECT_DOUBLE_EQ(value({"vllm", "default"}), 2);
}

TEST(ServeMemory, AddsUpAndGrowsWithTheBatch) {
  ServeScenario s = scenario_of("llama-3.1-8b", "h100-80gb");
  s.workload.input = 1000;
  s.workload.output = 500;
  const ServeModel model(s, {});
  const ServeMemory one = model.memory(1), many = model.memory(100);
  EXPECT_DOUBLE_EQ(many.kv_bytes, 100 * 1500 * model.kv_token_bytes());
  EXPECT_DOUBLE_EQ(one.weight_bytes, many.weight_bytes);
  EXPECT_LT(one.peak_bytes(), many.peak_bytes());
  const double parameters = static_cast<double>(engine::parameter_count(s.model));
  EXPECT_NEAR(one.weight_bytes, 2 * parameters, 0.01 * parameters);
}

TEST(ServeMemory, FourBitFloatsHaveTheScalesOfTheirGroups) {
  EXPECT_DOUBLE_EQ(bytes_of(ServeFormat::fp4), 4.5 / 8);
  EXPECT_DOUBLE_EQ(bytes_of(ServeFormat::mxfp4), 4.25 / 8);
  EXPECT_EQ(find_model("gpt-oss-120b").weight_format, "mxfp4");
}

// What each stack leaves free by default; the largest batch that fits leaves that.
TEST(ServeMemory, StacksLeaveAShareFree) {
  for (const char* stack : {"vllm", "sglang", "tensorrt-llm", "fastertransformer"}) {
    ServeScenario s = scenario_of("175b", "a100-80gb", stack);
    const ServePlan probe{.tp = 8};
    const double most = ServeModel(s, probe).kv_token_capacity() / 640;
    ServePlan plan = probe;
    for (plan.batch = static_cast<int64_t>(most) + 2;
         !predict_serving(s, plan).fits || predict_serving(s, plan).in_turns;)
      --plan.batch;
    const ServeMemory memory = predict_serving(s, plan).memory;
    const double total = memory.capacity_bytes, left = total - memory.peak_bytes();
    const double without = total - memory.weight_bytes - memory.runtime_bytes;
    const double sequence = memory.kv_bytes / static_cast<double>(plan.batch) + 5e7;
    const double expected = s.stack.share_of == ShareOf::all ? (1 - s.stack.memory_share) * total
                            : s.stack.share_of == ShareOf::all_static
                                ? 0.1 * total - memory.activation_bytes
                                : 0.1 * without - memory.activation_bytes;
    EXPECT_DOUBLE_EQ(memory.headroom_bytes, std::max(0.0, expected)) << stack;
    EXPECT_GE(left, memory.headroom_bytes) << stack;
    EXPECT_LT(left, memory.headroom_bytes + sequence) << stack << " " << plan.batch;
    s.stack.memory_share = 1;
    EXPECT_LT(ServeModel(s, plan).memory(1).headroom_bytes, 1) << stack;
  }
}

}  // namespace
}  // namespace tuner
