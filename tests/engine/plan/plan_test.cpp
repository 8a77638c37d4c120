// Grid, partition, plan text and JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/grid.h"
#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/partition.h"

namespace engine {
namespace {

TEST(Grid, TensorRanksAreNeighboursAndPipelineRanksFarApart) {
  const Grid grid(2, 1, 2, 2);
  EXPECT_EQ(grid.group(0, Axis::tensor), (std::vector{0, 1}));
  EXPECT_EQ(grid.group(0, Axis::data), (std::vector{0, 2}));
  EXPECT_EQ(grid.group(0, Axis::pipeline), (std::vector{0, 4}));
  EXPECT_EQ(grid.group(7, Axis::pipeline), (std::vector{3, 7}));
}

TEST(Grid, EveryRankStandsOnceOnEveryAxis) {
  const Grid grid(4, 2, 3, 5);
  for (int rank = 0; rank < grid.world(); ++rank) {
    int rebuilt = 0;
    for (Axis axis : {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}) {
      rebuilt += grid.coordinate(rank, axis) * grid.stride(axis);
      const auto group = grid.group(rank, axis);
      EXPECT_EQ(group[static_cast<size_t>(grid.coordinate(rank, axis))], rank);
    }
    EXPECT_EQ(rebuilt, rank);
  }
}

TEST(Grid, PlacementCountsNodes) {
  const Grid grid(8, 1, 8, 16);
  EXPECT_EQ(grid.placement(Axis::tensor, 8).nodes, 1);
  EXPECT_EQ(grid.placement(Axis::data, 8).nodes, 8);
  EXPECT_EQ(grid.placement(Axis::data, 8).ranks_per_node, 1);
  EXPECT_EQ(Grid(2, 1, 8, 1).placement(Axis::data, 8).ranks_per_node, 4);
  EXPECT_EQ(Grid(16, 1, 1, 1).placement(Axis::tensor, 8).nodes, 2);
}

TEST(Partition, EvenInterleavedChunksTakeTurns) {
  ParallelPlan plan;
  plan.pp = 4;
  plan.vpp = 2;
  const Partition partition(plan, 16);
  EXPECT_EQ(partition.chunk(0, 0).first, 0);
  EXPECT_EQ(partition.chunk(3, 0).first, 6);
  EXPECT_EQ(partition.chunk(0, 1).first, 8);
  EXPECT_TRUE(partition.has_head(3, 1));
  EXPECT_FALSE(partition.has_head(3, 0));
}

TEST(Partition, LighterChunksStandAtTheEnds) {
  ParallelPlan plan;  // Llama 405B: 126 layers as 16 × 8 virtual stages of one layer, two left out
  plan.pp = 16;
  plan.vpp = 8;
  plan.layers_per_stage.assign(16, 8);
  plan.layers_per_stage.front() = 7;
  plan.layers_per_stage.back() = 7;
  const Partition partition(plan, 126);
  EXPECT_EQ(partition.chunk(0, 0).count, 0);
  EXPECT_EQ(partition.chunk(0, 1).count, 1);
  EXPECT_EQ(partition.chunk(15, 7).count, 0);
  EXPECT_EQ(partition.layers_on(0), 7);
  int layers = 0;
  for (int stage = 0; stage < 16; ++stage) layers += partition.layers_on(stage);
  EXPECT_EQ(layers, 126);
}

TEST(Plan, JsonRoundTrip) {
  ParallelPlan plan;
  plan.dp = 8;
  plan.tp = 8;
  plan.pp = 16;
  plan.vpp = 6;
  plan.sp = true;
  plan.zero = 1;
  plan.gbs = 1536;
  plan.recompute = {Recompute::Mode::full, 2};
  const Json json = plan_to_json(plan, 96);
  EXPECT_EQ(json["recompute"], "full:2");
  EXPECT_EQ(json["layers_per_stage"].size(), 16u);
  EXPECT_EQ(plan_from_json(json, "test"), plan);
  plan.vpp = 1;
  plan.layers_per_stage = {5, 7, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6};
  EXPECT_EQ(plan_from_json(plan_to_json(plan, 96), "test"), plan);
}

TEST(Plan, AllProblemsOfAJsonAtOnce) {
  try {
    plan_from_json(Json{{"dp", 0}, {"tp", "8"}, {"mbs", 1}, {"gbs", 8}, {"recomptue", "full"}},
                   "p.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 3u);
    EXPECT_NE(std::string(error.what()).find("recompute"), std::string::npos);
  }
}

TEST(Plan, RecomputeText) {
  for (const char* text : {"none", "selective", "full", "full:7"})
    EXPECT_EQ(to_string(parse_recompute(text)), text);
  for (const char* text : {"", "full:", "full:0", "full:-1", "full:1x", "Selective"})
    EXPECT_THROW(parse_recompute(text), InputError) << text;
}

TEST(Outcome, JsonRoundTrip) {
  Outcome outcome;
  outcome.measured = true;
  outcome.step_seconds = 1.5;
  outcome.interval_seconds = {1.4, 1.6};
  outcome.samples_seconds = {1.4, 1.5, 1.6};
  outcome.breakdown_seconds = {{"gemm", 1.0}, {"bubble", 0.5}};
  outcome.loss = 2.5;
  outcome.violations = {{"AT0112", "layers", {"pp 4"}}};
  outcome.traffic = {{"all_reduce", "tp", 4, 1024}};
  StageMemory stage;
  stage[MemoryUse::activation] = 7;
  outcome.memory.stages = {stage};
  const Json json = outcome_to_json(outcome);
  EXPECT_EQ(outcome_to_json(outcome_from_json(json, "test")), json);
}

}  // namespace
}  // namespace engine
