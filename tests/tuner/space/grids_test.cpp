// Empirical grids: what NVIDIA's auto-configurator would have tried.
#include "tuner/space/grids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tuner {
namespace {

using engine::ModelSpec;
using engine::ParallelPlan;
using engine::Workload;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kA100_80 = 79.15 * kGiB;
constexpr double kA100_40 = 39.4 * kGiB;
constexpr double kV100_32 = 31.74 * kGiB;

ModelSpec gpt(int64_t layers, int64_t hidden, int64_t heads) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = 51200;
  model.positions = 2048;
  return model;
}
const ModelSpec k175b = gpt(96, 12288, 96);
const ModelSpec k20b = gpt(44, 6144, 48);
const ModelSpec k5b = gpt(24, 4096, 32);

// The distinct (tp, pp, mbs) of the plans as "tp/pp/mbs".
std::vector<std::string> shapes(const std::vector<ParallelPlan>& plans) {
  std::vector<std::string> texts;
  for (const ParallelPlan& plan : plans)
    texts.push_back(std::to_string(plan.tp) + "/" + std::to_string(plan.pp) + "/" +
                    std::to_string(plan.mbs));
  return texts;
}

// 1024 GPUs: pp 6 and 12 leave no whole number of replicas; pp 4, 8, 16 give dp 32, 16, 8.
TEST(Grids, The175BGridOn80Gb) {
  const GridPlans tried = grid_plans(k175b, Workload{.seq = 2048, .gbs = 2048}, 1024, kA100_80);
  EXPECT_EQ(tried.name, "gpt-80gb");
  EXPECT_EQ(tried.gbs, 2048);
  EXPECT_THAT(shapes(tried.plans), ElementsAre("8/4/1", "8/4/2", "8/4/4", "8/8/1", "8/8/2", "8/8/4",
                                               "8/16/1", "8/16/2", "8/16/4"));
  for (const ParallelPlan& plan : tried.plans) {
    EXPECT_EQ(plan.world(), 1024);
    EXPECT_EQ(plan.vpp, 96 / plan.pp) << "one layer a chunk";
    EXPECT_TRUE(plan.sp);
    EXPECT_EQ(plan.zero, 1);
    EXPECT_EQ(plan.gbs, 2048);
    EXPECT_EQ(plan.recompute, engine::Recompute{});
  }
  ASSERT_EQ(tried.base.size(), 1u);
  EXPECT_THAT(shapes(tried.base), ElementsAre("8/8/1"));
}

TEST(Grids, OnlyDivisorsOfTheLayersAndOfTheBatchRemain) {
  // 44 layers: pp 1, 2, 4 of 1..4; tp·pp within 4..8; 3 does not divide.
  const GridPlans tried = grid_plans(k20b, Workload{.seq = 2048, .gbs = 96}, 64, kA100_80);
  // dp 64/mp: mp 4 → 16, mp 8 → 8; 96 is a multiple of 16·mbs for 1, 2 and of 8·mbs for 1, 2, 4.
  EXPECT_THAT(shapes(tried.plans),
              ElementsAre("1/4/1", "1/4/2", "2/2/1", "2/2/2", "2/4/1", "2/4/2", "2/4/4", "4/1/1",
                          "4/1/2", "4/2/1", "4/2/2", "4/2/4"));
  EXPECT_FALSE(tried.plans.front().sp) << "tp 1 has no sequence parallelism";
  EXPECT_EQ(tried.plans.front().vpp, 11);
  EXPECT_EQ(tried.plans[2].vpp, 1) << "two stages are not interleaved";
}

TEST(Grids, TheTablesDependOnSequenceAndMemory) {
  const auto count = [](const ModelSpec& model, int64_t seq, double memory) {
    return grid_plans(model, Workload{.seq = seq, .gbs = 1024}, 64, memory).plans.size();
  };
  const GridPlans small = grid_plans(k5b, Workload{.seq = 2048, .gbs = 1024}, 16, kA100_40);
  EXPECT_EQ(small.name, "gpt-40gb");
  EXPECT_EQ(small.gbs, 0) << "the 40 GB tables state no batch";
  EXPECT_THAT(shapes(small.base), ElementsAre("8/1/1"));
  EXPECT_FALSE(small.plans.front().sp) << "below 13 B the tool switches it off";
  EXPECT_GT(count(k5b, 2048, kA100_80), 0u);
  EXPECT_GT(count(k5b, 32768, kA100_80), 0u);
  EXPECT_NE(count(k5b, 2048, kA100_80), count(k5b, 8192, kA100_80));
  EXPECT_EQ(count(k5b, 2048, 139 * kGiB), count(k5b, 2048, kA100_80)) << "H200: the 80 GB tables";
  EXPECT_EQ(count(k5b, 1000, kA100_80), 0u) << "no table for this sequence";
  EXPECT_EQ(count(k175b, 8192, kA100_80), 0u) << "no row for this size";
  EXPECT_EQ(count(gpt(192, 40960, 256), 2048, kA100_80), 0u);
  EXPECT_GT(count(k5b, 1000, kA100_40), 0u) << "the 40 GB tables ignore the sequence";
  EXPECT_THAT(grid_plans(k5b, Workload{.seq = 2048, .gbs = 1024}, 16, kV100_32).name, IsEmpty());
}

// The recommended configurations that NVIDIA shipped lie in its grid, and so do we then.
TEST(Grids, ShippedRecommendationsAreAmongThePlans) {
  struct Case {
    ModelSpec model;
    int gpus;
    int64_t gbs;
    const char* shape;
  };
  for (const Case& shipped :
       {Case{gpt(12, 768, 12), 64, 256, "1/1/4"}, Case{k5b, 128, 2048, "1/1/2"},
        Case{k20b, 512, 2048, "4/1/2"}, Case{gpt(48, 8192, 64), 1024, 2048, "8/1/2"},
        Case{k175b, 1024, 2048, "8/16/1"}}) {
    const GridPlans tried = grid_plans(shipped.model, Workload{.seq = 2048, .gbs = shipped.gbs},
                                       shipped.gpus, kA100_80);
    EXPECT_THAT(shapes(tried.plans), ::testing::Contains(shipped.shape));
    const auto texts = shapes(tried.plans);
    EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  }
}

}  // namespace
}  // namespace tuner
