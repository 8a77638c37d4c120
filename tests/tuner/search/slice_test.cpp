// How much of a plan's depth a small machine runs: the shards stay true, the rest shrinks to fit.
#include "tuner/search/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scenarios.h"
#include "tuner/model/memory_model.h"

namespace tuner {
namespace {

constexpr double kGiB = 1 << 30;
constexpr SliceRoom kSmall{16 * kGiB, 120, 500e9, 1e9};

engine::ParallelPlan interleaved() {
  return {.dp = 32,
          .tp = 4,
          .pp = 8,
          .vpp = 6,
          .sp = true,
          .zero = 1,
          .mbs = 1,
          .gbs = 1536,
          .recompute = {engine::Recompute::Mode::selective, 0}};
}

Slice slice(const engine::ParallelPlan& plan, const SliceRoom& room) {
  std::string why_not;
  const auto found = slice_of(test_support::scenario_for({}), plan, room, why_not);
  EXPECT_TRUE(found) << why_not;
  return found.value_or(Slice{});
}

TEST(Slices, KeepTheShardsOfThePlan) {
  const engine::ParallelPlan plan = interleaved();
  const Slice cut = slice(plan, kSmall);
  EXPECT_EQ(cut.plan.tp, plan.tp);
  EXPECT_EQ(cut.plan.dp, plan.dp);
  EXPECT_EQ(cut.plan.mbs, plan.mbs);
  EXPECT_EQ(cut.plan.zero, plan.zero);
  EXPECT_EQ(cut.plan.sp, plan.sp);
  EXPECT_EQ(cut.plan.recompute, plan.recompute);
  EXPECT_EQ(cut.scenario.model.hidden, 12288);
  EXPECT_EQ(cut.scenario.workload.seq, 2048);
  EXPECT_EQ(cut.plan.gbs, cut.plan.micro_batches() * cut.plan.mbs * cut.plan.dp);
  EXPECT_LT(cut.scenario.model.layers, 96);
}

TEST(Slices, HaveAFirstAMiddleAndALastStage) {
  const Slice cut = slice(interleaved(), kSmall);
  ASSERT_EQ(cut.stages.size(), 3u);
  EXPECT_EQ(cut.stages[0].rank, 0);
  EXPECT_EQ(cut.stages[1].rank, cut.stages[1].stage * 4 * 32);
  EXPECT_EQ(cut.stages[2].stage, cut.plan.pp - 1);
  EXPECT_EQ(cut.stages[2].place, "last");
}

TEST(Slices, FitTheRoomAndGrowWithIt) {
  const Slice small = slice(interleaved(), kSmall);
  for (const SliceStage& stage : small.stages) EXPECT_LE(stage.bytes, kSmall.bytes);
  EXPECT_LE(small.seconds, kSmall.seconds);
  const Slice whole = slice(interleaved(), {4096 * kGiB, 1e9, 1e15, 1e12});
  EXPECT_EQ(whole.plan.pp, 8);
  EXPECT_EQ(whole.plan.vpp, 6);
  EXPECT_EQ(whole.scenario.model.layers, 96);
  EXPECT_GT(whole.stages[0].bytes, small.stages[0].bytes);
}

TEST(Slices, MixWhatIsRecomputedAsThePlanDoes) {
  engine::ParallelPlan plan = interleaved();
  plan.vpp = 1;
  plan.recompute = {engine::Recompute::Mode::full, 5};
  const Slice cut = slice(plan, kSmall);
  EXPECT_EQ(cut.plan.recompute.mode, engine::Recompute::Mode::full);
  EXPECT_EQ(cut.scenario.model.layers / cut.plan.pp, 2);
  EXPECT_EQ(cut.plan.recompute.layers, 1) << "one layer is recomputed, the other is not";
}

TEST(Slices, WithoutTimeAreTheFastestThatFit) {
  const Slice hurried = slice(interleaved(), {16 * kGiB, 0, 500e9, 1e9});
  EXPECT_GT(hurried.seconds, 0);
  EXPECT_EQ(hurried.plan.micro_batches(), 1);
}

TEST(Slices, WithoutMemoryThereIsNone) {
  std::string why_not;
  EXPECT_FALSE(
      slice_of(test_support::scenario_for({}), interleaved(), {kGiB, 120, 500e9, 1e9}, why_not));
  EXPECT_THAT(why_not, testing::HasSubstr("1.0 GiB are free here"));
}

TEST(Slices, OfWhatTheEngineLacksThereIsNone) {
  engine::ParallelPlan plan = interleaved();
  plan.cp = 2;
  plan.dp = 16;
  std::string why_not;
  EXPECT_FALSE(slice_of(test_support::scenario_for({}), plan, kSmall, why_not));
  EXPECT_THAT(why_not, testing::HasSubstr("the built-in engine does not run"));
}

}  // namespace
}  // namespace tuner
