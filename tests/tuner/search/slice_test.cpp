// How much of a plan's depth a small machine runs: the shards stay true, the rest shrinks to fit.
#include "tuner/search/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scenarios.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/presets.h"

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

engine::ParallelPlan plan_of(const Slice& slice) {
  return std::get<engine::ParallelPlan>(slice.plan);
}

TEST(Slices, KeepTheShardsOfThePlan) {
  const engine::ParallelPlan plan = interleaved();
  const Slice cut = slice(plan, kSmall);
  const engine::ParallelPlan small = plan_of(cut);
  EXPECT_EQ(small.tp, plan.tp);
  EXPECT_EQ(small.dp, plan.dp);
  EXPECT_EQ(small.mbs, plan.mbs);
  EXPECT_EQ(small.zero, plan.zero);
  EXPECT_EQ(small.sp, plan.sp);
  EXPECT_EQ(small.recompute, plan.recompute);
  EXPECT_EQ(small.gbs, small.micro_batches() * small.mbs * small.dp);
  for (const SingleRank& rank : cut.ranks) {
    EXPECT_EQ(rank.job.model.hidden, 12288);
    EXPECT_EQ(rank.job.workload.seq, 2048);
    EXPECT_EQ(rank.job.plan.tp, plan.tp);
  }
  EXPECT_LT(cut.layers, 96);
}

TEST(Slices, HaveAFirstAMiddleAndALastStage) {
  const Slice cut = slice(interleaved(), kSmall);
  ASSERT_EQ(cut.ranks.size(), 3u);
  EXPECT_EQ(cut.ranks[0].job.phantom_rank, 0);
  EXPECT_EQ(cut.ranks[1].job.phantom_rank, cut.ranks[1].stage * 4 * 32);
  EXPECT_EQ(cut.ranks[2].stage, plan_of(cut).pp - 1);
  EXPECT_EQ(cut.ranks[2].place, "last");
}

TEST(Slices, FitTheRoomAndGrowWithIt) {
  const Slice small = slice(interleaved(), kSmall);
  for (const SingleRank& rank : small.ranks) EXPECT_LE(rank.bytes, kSmall.bytes);
  EXPECT_LE(small.seconds, kSmall.seconds);
  const Slice whole = slice(interleaved(), {4096 * kGiB, 1e9, 1e15, 1e12});
  EXPECT_EQ(plan_of(whole).pp, 8);
  EXPECT_EQ(plan_of(whole).vpp, 6);
  EXPECT_EQ(whole.layers, 96);
  EXPECT_GT(whole.ranks[0].bytes, small.ranks[0].bytes);
}

TEST(Slices, MixWhatIsRecomputedAsThePlanDoes) {
  engine::ParallelPlan plan = interleaved();
  plan.vpp = 1;
  plan.recompute = {engine::Recompute::Mode::full, 5};
  const Slice cut = slice(plan, kSmall);
  EXPECT_EQ(plan_of(cut).recompute.mode, engine::Recompute::Mode::full);
  EXPECT_EQ(cut.layers / plan_of(cut).pp, 2);
  EXPECT_EQ(plan_of(cut).recompute.layers, 1) << "one layer is recomputed, the other is not";
}

TEST(Slices, WithoutTimeAreTheFastestThatFit) {
  const Slice hurried = slice(interleaved(), {16 * kGiB, 0, 500e9, 1e9});
  EXPECT_GT(hurried.seconds, 0);
  EXPECT_EQ(plan_of(hurried).micro_batches(), 1);
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

TEST(Slices, AreInF32WhereBf16IsNotMultiplied) {
  SliceRoom room{64 * kGiB, 120, 500e9, 1e9};
  EXPECT_EQ(slice(interleaved(), room).ranks[0].job.workload.precision, engine::Precision::bf16);
  room.multiplies_bf16 = false;
  EXPECT_EQ(slice(interleaved(), room).ranks[0].job.workload.precision, engine::Precision::f32);
}

ServeScenario serving(const std::string& model, int gpus) {
  ServeScenario s;
  s.model = find_model(model);
  s.cluster = find_cluster("a100-80gb", gpus);
  s.stack = find_serve_stack("tensorrt-llm");
  use_rates(s, ServeRatesTable::load());
  return s;
}

Slice slice(const ServeScenario& scenario, const ServePlan& plan, const SliceRoom& room) {
  std::string why_not;
  const auto found = slice_of(scenario, plan, room, why_not);
  EXPECT_TRUE(found) << why_not;
  return found.value_or(Slice{});
}

TEST(ServeSlices, KeepTheShardsAndThePrompts) {
  const ServeScenario s = serving("175b", 16);
  const ServePlan plan{
      .tp = 8, .replicas = 2, .batch = 16, .weights = ServeFormat::fp16, .kv = ServeFormat::fp16};
  const Slice cut = slice(s, plan, {4 * kGiB, 10, 200e9, 1e9});
  EXPECT_EQ(std::get<ServePlan>(cut.of), plan);
  const auto small = std::get<ServePlan>(cut.plan);
  EXPECT_EQ(small.tp, 8);
  EXPECT_EQ(small.replicas, 1) << "they do not know of each other";
  EXPECT_EQ(small.weights, ServeFormat::bf16) << "the engine has one 16-bit type";
  EXPECT_LT(small.batch, 16);
  ASSERT_EQ(cut.ranks.size(), 1u);
  const SingleRank& rank = cut.ranks[0];
  EXPECT_EQ(rank.place, "only");
  EXPECT_EQ(rank.job.phantom_rank, 0);
  EXPECT_EQ(rank.job.model.hidden, 12288);
  EXPECT_EQ(rank.job.model.layers, cut.layers);
  EXPECT_EQ(rank.job.plan.world(), 8);
  EXPECT_EQ(rank.job.serving->input, s.workload.input);
  EXPECT_EQ(rank.job.serving->batch, small.batch);
  EXPECT_LE(rank.bytes, 4 * kGiB);
  EXPECT_LE(cut.seconds, 10);
}

TEST(ServeSlices, GrowToTheWholePlanWithTheRoom) {
  const ServeScenario s = serving("llama-3.1-70b", 32);
  const ServePlan plan{.tp = 4, .pp = 8, .batch = 64};
  const SliceRoom all{4096 * kGiB, 1e9, 1e15, 1e12};
  const Slice whole = slice(s, plan, all), small = slice(s, plan, {8 * kGiB, 20, 200e9, 1e9});
  EXPECT_EQ(std::get<ServePlan>(whole.plan), plan);
  EXPECT_EQ(whole.layers, s.model.layers);
  ASSERT_EQ(whole.ranks.size(), 3u);
  EXPECT_EQ(whole.ranks[1].job.phantom_rank, 4 * 4);
  EXPECT_EQ(whole.ranks[2].place, "last");
  EXPECT_EQ(whole.ranks[0].job.serving->output, s.workload.output);
  EXPECT_LT(small.layers, whole.layers);
  EXPECT_LE(small.seconds, 20);
  for (const SingleRank& rank : small.ranks) EXPECT_LE(rank.bytes, 8 * kGiB);
  EXPECT_GT(whole.ranks[2].seconds, whole.ranks[1].seconds) << "it has the head, too";
}

TEST(ServeSlices, AreInF32WhereBf16IsNotMultiplied) {
  SliceRoom room{16 * kGiB, 120, 500e9, 1e9};
  room.multiplies_bf16 = false;
  const Slice cut = slice(serving("175b", 8), {.tp = 8}, room);
  EXPECT_EQ(cut.ranks[0].job.workload.precision, engine::Precision::f32);
  EXPECT_EQ(std::get<ServePlan>(cut.plan).kv, ServeFormat::f32);
}

TEST(ServeSlices, OfWhatTheEngineLacksThereIsNone) {
  std::string why_not;
  EXPECT_FALSE(slice_of(serving("mixtral-8x7b", 8), {.tp = 8}, kSmall, why_not));
  EXPECT_THAT(why_not, testing::HasSubstr("the built-in engine does not run"));
  EXPECT_FALSE(slice_of(serving("175b", 8), {.tp = 8}, {kGiB / 16, 1, 1e9, 1e9}, why_not));
  EXPECT_THAT(why_not, testing::HasSubstr("are free here"));
}

}  // namespace
}  // namespace tuner
