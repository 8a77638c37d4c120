// How long, how many GPUs, how large: the three answers agree with each other and with the search.
#include "tuner/search/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/scenarios.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using test_support::Request;
using test_support::scenario_for;
using ::testing::Contains;
using ::testing::HasSubstr;

Sizing days_of(const Scenario& scenario) { return size_training({SizeUnknown::days, scenario}); }
Sizing gpus_of(const Scenario& scenario, double days) {
  return size_training({SizeUnknown::gpus, scenario, days});
}
Sizing parameters_of(const Scenario& scenario, double days) {
  return size_training({SizeUnknown::parameters, scenario, days});
}

TEST(Size, DaysAreThoseOfTheRecommendedPlan) {
  const Scenario s = scenario_for({});
  const Sizing sizing = days_of(s);
  const Recommendation r = recommend(s, {});
  ASSERT_TRUE(sizing.best && r.best);
  EXPECT_EQ(sizing.best->plan, r.best->plan);
  EXPECT_DOUBLE_EQ(sizing.days(), r.days_to_train());
  EXPECT_TRUE(sizing.meets_deadline);
  const auto [low, high] = sizing.interval_days();
  EXPECT_LT(low, sizing.days());
  EXPECT_GT(high, sizing.days());
  EXPECT_DOUBLE_EQ(high / sizing.days(),
                   r.best->predicted.interval_seconds.high / r.best->predicted.step_seconds);
}

// Days of N GPUs, then GPUs for these days: N again, or fewer that are just as quick.
TEST(Size, GpusForTheDaysOfSomeGpus) {
  const Request rows[] = {
      {},
      {.model = "gpt3-20b", .gpus = 256},
      {.model = "llama-2-7b", .gpu = "a100-40gb", .gpus = 64, .gbs = 256, .seq = 4096},
      {.model = "llama-3.1-70b",
       .gpu = "h100-80gb",
       .gpus = 512,
       .stack = "megatron-core",
       .gbs = 1024,
       .seq = 4096}};
  for (const Request& request : rows) {
    SCOPED_TRACE(testing::PrintToString(request));
    const Scenario s = scenario_for(request);
    const double days = days_of(s).days();
    const Sizing sizing = gpus_of(s, days);
    ASSERT_TRUE(sizing.best);
    EXPECT_TRUE(sizing.meets_deadline);
    EXPECT_LE(sizing.scenario.cluster.gpus, request.gpus);
    EXPECT_EQ(sizing.scenario.cluster.gpus % s.cluster.gpus_per_node(), 0);
    EXPECT_LE(sizing.days(), days);
    EXPECT_DOUBLE_EQ(days_of(sizing.scenario).days(), sizing.days());
    ASSERT_TRUE(sizing.range);
    EXPECT_LE(sizing.range->fast, sizing.scenario.cluster.gpus);
    EXPECT_GE(sizing.range->slow, sizing.scenario.cluster.gpus);
  }
}

// Against asking every number: none that is smaller meets the deadline.
TEST(Size, NoSmallerNumberOfGpusMeetsTheDeadline) {
  for (const auto& [model, gbs] : {std::pair("gpt3-1.3b", 96), std::pair("gpt3-2.7b", 320)}) {
    const Scenario s = scenario_for({.model = model, .gbs = gbs});
    for (const double days : {40.0, 12.0, 6.0}) {
      const Sizing sizing = gpus_of(s, days);
      ASSERT_TRUE(sizing.meets_deadline) << model << " in " << days;
      for (const int gpus : SearchSpace(s, {}).usable_gpu_counts()) {
        if (gpus >= sizing.scenario.cluster.gpus) break;
        if (gpus % s.cluster.gpus_per_node() != 0) continue;
        Scenario fewer = s;
        fewer.cluster.gpus = gpus;
        const Sizing other = days_of(fewer);
        EXPECT_TRUE(!other.best || other.days() > days) << gpus << " are enough for " << model;
      }
    }
  }
}

TEST(Size, TheLargestModelThatMeetsTheDeadline) {
  struct Row {
    int gpus;
    int64_t gbs;
    double tokens, days;
  };
  for (const auto& [gpus, gbs, tokens, days] :
       {Row{1024, 1536, 300e9, 30}, Row{64, 512, 100e9, 7}, Row{8, 64, 20e9, 3}}) {
    SCOPED_TRACE(gpus);
    Scenario s = scenario_for({.gpus = gpus, .gbs = gbs});
    s.workload.tokens = tokens;
    const Sizing sizing = parameters_of(s, days);
    ASSERT_TRUE(sizing.best && sizing.meets_deadline);
    EXPECT_LE(sizing.days(), days);
    const double found = static_cast<double>(parameter_count(sizing.scenario.model));
    ASSERT_TRUE(sizing.range);
    EXPECT_GE(sizing.range->fast, found);
    EXPECT_LE(sizing.range->slow, found);
    // Its name gives the same model, and so the same days.
    s.model = find_model(sizing.scenario.model.name.substr(4));
    EXPECT_EQ(parameter_count(s.model), parameter_count(sizing.scenario.model));
    EXPECT_DOUBLE_EQ(days_of(s).days(), sizing.days());
    for (double larger = 1.04; larger < 1.6; larger += 0.04) {
      s.model = derive_gpt(larger * found);
      const Sizing other = days_of(s);
      EXPECT_TRUE(!other.best || other.days() > days) << s.model.name;
    }
    // And back: so many GPUs are needed for it.
    EXPECT_LE(gpus_of(sizing.scenario, days).scenario.cluster.gpus, gpus);
  }
}

// The documented example of NVIDIA's auto-configurator: 20 nodes for 5 days and 300 B tokens give
// 5 B parameters at the batch of its tables. Its formula, 8 FLOPs a parameter and token at 140
// TFLOP/s, gives 4.0 B.
TEST(Size, TwentyNodesForFiveDays) {
  const Sizing sizing = parameters_of(scenario_for({.gpus = 160, .gbs = 1440}), 5);
  ASSERT_TRUE(sizing.best);
  const double found = static_cast<double>(parameter_count(sizing.scenario.model));
  const double formula = 160 * 5 * 86400 * 140e12 / (8 * 300e9);
  EXPECT_NEAR(formula, 4.03e9, 0.01e9);
  EXPECT_GT(found, formula) << "no recomputation is needed at this size";
  EXPECT_NEAR(found, 5e9, 1e9);
}

TEST(Size, ADeadlineThatNothingMeets) {
  const Scenario s = scenario_for({});
  const Sizing gpus = gpus_of(s, 0.5);
  ASSERT_TRUE(gpus.best);
  EXPECT_FALSE(gpus.meets_deadline);
  EXPECT_GT(gpus.days(), 0.5);
  EXPECT_FALSE(gpus.range);
  EXPECT_THAT(gpus.notes, Contains(HasSubstr("no number of GPUs meets 12.0 h")));
  EXPECT_THAT(gpus.notes, Contains(HasSubstr("the batch of 1,536 sequences limits scaling")));
  EXPECT_THAT(gpus.notes, Contains(HasSubstr("each GPU does")));
  for (const int other : {1024, 16384, 98304, 393216}) {
    Scenario fewer = s;
    fewer.cluster.gpus = other;
    EXPECT_GE(days_of(fewer).days(), gpus.days()) << other;
  }
  const Sizing parameters = parameters_of(scenario_for({.gpus = 64}), 0.01);
  ASSERT_TRUE(parameters.best);
  EXPECT_FALSE(parameters.meets_deadline);
  EXPECT_LT(parameter_count(parameters.scenario.model), 10'000'000);
}

TEST(Size, NothingFits) {
  const Sizing sizing = days_of(scenario_for({.gpus = 8}));
  EXPECT_FALSE(sizing.best);
  EXPECT_FALSE(sizing.meets_deadline);
  EXPECT_EQ(sizing.days(), 0);
  EXPECT_THAT(sizing.remedies, Contains(HasSubstr("the nearest number of GPUs that works is")));
  const nlohmann::json answer = sizing_to_json(sizing);
  EXPECT_TRUE(answer.at("best").is_null());
  EXPECT_TRUE(answer.at("days").is_null());
}

TEST(Size, MemoryIsTheLimitWhereTimeIsNot) {
  Scenario s = scenario_for({.gpus = 8, .gbs = 64});
  s.workload.tokens = 2e9;
  const Sizing sizing = parameters_of(s, 3000);
  ASSERT_TRUE(sizing.best && sizing.meets_deadline);
  EXPECT_LT(sizing.days(), 300);
  EXPECT_THAT(sizing.notes, Contains(HasSubstr("memory is the limit")));
}

TEST(Size, JsonOfTheAnswer) {
  const Scenario s = scenario_for({.gpus = 128});
  const nlohmann::json answer = sizing_to_json(size_training({SizeUnknown::days, s, 0, 2.5}));
  EXPECT_EQ(answer.at("schema"), "autotune.size/1");
  EXPECT_EQ(answer.at("asked"), "days");
  EXPECT_TRUE(answer.at("deadline_days").is_null());
  EXPECT_TRUE(answer.at("meets_deadline").is_null());
  EXPECT_EQ(answer.at("nodes"), 16);
  const double days = answer.at("days");
  EXPECT_DOUBLE_EQ(answer.at("gpu_hours"), days * 24 * 128);
  EXPECT_DOUBLE_EQ(answer.at("cost"), days * 24 * 128 * 2.5);
  EXPECT_LT(answer.at("interval_cost").at(0), answer.at("cost"));
  EXPECT_GT(answer.at("interval_cost").at(1), answer.at("cost"));
  const nlohmann::json& optimum = answer.at("compute_optimal");
  EXPECT_DOUBLE_EQ(optimum.at("tokens"), 20 * answer.at("parameters").get<double>());
  EXPECT_DOUBLE_EQ(optimum.at("parameters"), 300e9 / 20);
  const nlohmann::json& same = optimum.at("same_compute");
  EXPECT_NEAR(same.at("parameters").get<double>() * same.at("tokens").get<double>() /
                  (answer.at("parameters").get<double>() * 300e9),
              1, 1e-12);
  EXPECT_DOUBLE_EQ(same.at("tokens"), 20 * same.at("parameters").get<double>());
}

}  // namespace
}  // namespace tuner
