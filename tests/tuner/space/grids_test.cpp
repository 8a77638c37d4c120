// Empirical grids: what NVIDIA's auto-configurator would have tried.
#include "tuner/space/grids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/errors.h"

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

// A user's own grid replaces the built-in one of the same name; what is wrong in it is said at
// once.
TEST(Grids, AUsersGridComesFirstAndIsChecked) {
  const std::string root = ::testing::TempDir() + "grids_config";
  const std::string folder = root + "/autotune/grids";
  std::filesystem::create_directories(folder);
  const char* before = std::getenv("XDG_CONFIG_HOME");
  const std::string saved = before ? before : "";
  setenv("XDG_CONFIG_HOME", root.c_str(), 1);
  const auto write = [&](const std::string& text) {
    std::ofstream(folder + "/gpt-80gb.json") << text;
  };
  const Workload workload{.seq = 2048, .gbs = 64};
  write(R"({"name": "mine", "source": "us", "memory_bytes": 80e9,
    "habits": {"zero": 0, "recompute": "full", "sp_above_parameters": 0,
               "one_layer_per_chunk_above_pp": 1000},
    "grids": [{"rows": [{"parameters_up_to": 1e12, "tp": [4], "pp": [3, 2], "mbs": [1],
                         "mp": {"from": 1, "to": 64}}]}],
    "bases": [{"seq": 4096, "rows": []}]})");
  const GridPlans mine = grid_plans(k175b, workload, 24, kA100_80);
  EXPECT_EQ(mine.name, "mine");
  EXPECT_THAT(shapes(mine.plans), ElementsAre("4/3/1"))
      << "pp 2 gives dp 3, which does not divide 64";
  EXPECT_EQ(mine.plans.front().recompute.mode, engine::Recompute::Mode::full);
  EXPECT_THAT(mine.base, IsEmpty());

  write(R"({"name": "mine", "memory_bytes": 80, "habits": {}, "grids": [{"rows": [{"tp": []}]}]})");
  try {
    grid_plans(k175b, workload, 24, kA100_80);
    ADD_FAILURE() << "a broken grid was accepted";
  } catch (const engine::InputError& error) {
    for (const char* place : {"source", "memory_bytes", "habits.recompute", "grids[0].rows[0].tp",
                              "grids[0].rows[0].mp.from", "bases"})
      EXPECT_THAT(error.what(), ::testing::HasSubstr(place));
  }
  std::filesystem::remove_all(root);
  before ? setenv("XDG_CONFIG_HOME", saved.c_str(), 1) : unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace tuner
