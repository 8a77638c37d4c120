// The constants of the cost model: scopes, and numbers that no machine has.
#include "tuner/model/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tests/support/scenarios.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::Precision;
using ::testing::Contains;
using ::testing::HasSubstr;

nlohmann::json built_in() {
  return nlohmann::json::parse(find_data_file("profiles", "rates", "rates file").text);
}

std::vector<std::string> problems_of(const nlohmann::json& json) {
  try {
    RatesTable::from_json(json, "rates.json");
  } catch (const engine::InputError& error) {
    return error.problems();
  }
  return {};
}

TEST(Rates, TheBuiltInOnesAreSound) { EXPECT_THAT(problems_of(built_in()), testing::IsEmpty()); }

// Every bad number is named at once: what the model divides by, shares beyond one, gaps.
TEST(Rates, BadNumbersAreNamed) {
  nlohmann::json json = built_in();
  auto& constants = json["constants"];
  constants["gemm_efficiency"]["values"]["ampere"] = 0;
  constants["data_network_efficiency"]["values"]["default"] = -1;
  constants["tensor_backward_hidden"]["values"]["default"] = 1.5;
  constants["residual_correlation"]["values"]["default"] = 1;
  constants["launch_seconds"]["values"].erase("default");
  constants["score_bytes"]["values"]["default"] = "many";
  constants.erase("step_seconds");
  const std::vector<std::string> problems = problems_of(json);
  for (const char* name :
       {"gemm_efficiency.values.ampere", "data_network_efficiency", "tensor_backward_hidden",
        "residual_correlation", "launch_seconds", "score_bytes", "step_seconds"})
    EXPECT_THAT(problems, Contains(HasSubstr(name)));
}

TEST(Rates, TheMostSpecificScopeApplies) {
  nlohmann::json json = built_in();
  auto& values = json["constants"]["micro_batch_seconds"]["values"];
  json["constants"]["micro_batch_seconds"].erase("fitted");
  values = {{"default", 1}};
  const Scenario s = test_support::scenario_for({});
  const auto resolved = [&] {
    return RatesTable::from_json(json, "rates.json")
        .resolve(s.cluster, s.stack, Precision::fp16)
        .micro_batch_seconds;
  };
  EXPECT_EQ(resolved(), 1);
  double value = 2;
  // From the widest scope to the narrowest; fp16 shares the numbers of bf16.
  for (const char* scope :
       {"bf16", "ampere", "ampere/bf16", "megatron-2022", "a100-80gb", "dgx-a100"}) {
    values[scope] = value;
    EXPECT_EQ(resolved(), value) << scope;
    ++value;
  }
  values["hopper"] = values["megatron-core"] = 99;
  EXPECT_EQ(resolved(), value - 1);
}

// A plan beyond the runs of the fit is less certain, and arithmetic it never saw is as uncertain as
// an unknown stack.
// Our engine overlaps on GPUs, but for what ZeRO 2 and 3 add; ranks on a CPU take turns.
TEST(Rates, OurEngineHidesWhatItOverlaps) {
  const RatesTable table = RatesTable::load();
  const Stack stack = find_stack("autotune");
  EXPECT_TRUE(stack.overlaps_gradient_reduction && stack.overlaps_tensor_backward);
  const auto rates = [&](const char* gpu) {
    return table.resolve(find_cluster(gpu, 1), stack, Precision::f32);
  };
  const Rates on_gpu = rates("h100-80gb"), on_cpu = rates("cpu");
  EXPECT_GT(on_gpu.gradient_hidden, 0);
  EXPECT_GT(on_gpu.tensor_backward_hidden, 0);
  EXPECT_EQ(on_gpu.shard_hidden, 0);
  EXPECT_EQ(on_cpu.gradient_hidden, 0);
  EXPECT_EQ(on_cpu.tensor_backward_hidden, 0);
  EXPECT_EQ(on_cpu.shard_hidden, 0);
}

TEST(Rates, UncertaintyGrowsWithTheDistance) {
  Seen seen;
  seen.add("ampere/bf16", {4096, 2048, 2048, 1, 1, 8});
  seen.add("ampere/bf16", {8192, 2048, 4096, 8, 4, 256});
  EXPECT_DOUBLE_EQ(seen.distance({5000, 2048, 4096, 2, 2, 64}), 0);
  EXPECT_DOUBLE_EQ(seen.distance({16384, 1024, 4096, 2, 2, 1024}), 1 + 1 + 2);
  EXPECT_DOUBLE_EQ(Seen().distance({1, 1, 1, 1, 1, 1}), 0) << "nothing is known";
  const Seen again = seen_from_json(seen_to_json(seen), "test");
  EXPECT_EQ(again.formats, seen.formats);
  EXPECT_EQ(again.most, seen.most);
  EXPECT_THROW(seen_from_json(nlohmann::json{{"formats", {"ampere/bf16"}}}, "test"),
               engine::InputError);

  nlohmann::json json = built_in();
  json["constants"]["residual_sigma"]["fitted"] = {{"default", 0.3}, {"megatron-2022", 0.04}};
  const Scenario s = test_support::scenario_for({.stack = "megatron-2022"});
  const auto sigma = [&](const char* format) {
    Seen one;
    one.add(format, {4096, 2048, 2048, 1, 1, 8});
    json["fit"]["seen"] = {{"megatron-2022", seen_to_json(one)}};
    return RatesTable::from_json(json, "rates.json")
        .resolve(s.cluster, s.stack, s.workload.precision)
        .residual_sigma;
  };
  EXPECT_DOUBLE_EQ(sigma("ampere/bf16"), 0.04);
  EXPECT_DOUBLE_EQ(sigma("hopper/fp8"), 0.3);
}

}  // namespace
}  // namespace tuner
