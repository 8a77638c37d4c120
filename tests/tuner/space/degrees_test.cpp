// Which degrees and layers published models take, and the normal form of plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scenarios.h"
#include "tuner/space/rules.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Recompute;
using test_support::gpt;
using test_support::scenario_for;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Recompute kNone{Recompute::Mode::none, 0};
constexpr Recompute kSelective{Recompute::Mode::selective, 0};
constexpr Recompute kFull{Recompute::Mode::full, 0};
const std::string kCore = "megatron-core", kH100 = "h100-80gb";

// ---- Which tensor-parallel and pipeline degrees published models take.

struct DegreesRow {
  const char* model;
  std::vector<int64_t> by_heads;      // tp that divides the heads and the MLP, replicating KV heads
  std::vector<int64_t> without_copy;  // tp of stacks that do not replicate
  std::vector<int64_t> pp;            // that divide the layers
};
const DegreesRow kDegrees[] = {
    {"llama-3.1-8b", {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8}, {1, 2, 4, 8, 16, 32}},
    {"llama-3.1-70b", {1, 2, 4, 8, 16, 32, 64}, {1, 2, 4, 8}, {1, 2, 4, 5, 8, 10, 16, 20, 40, 80}},
    {"llama-3.1-405b",
     {1, 2, 4, 8, 16, 32, 64, 128},
     {1, 2, 4, 8},
     {1, 2, 3, 6, 7, 9, 14, 18, 21, 42, 63, 126}},
    // tp 7 and 14 divide the 28 heads, but not the 4 KV heads, nor 18,944 by 7.
    {"qwen2-7b", {1, 2, 4}, {1, 2, 4}, {1, 2, 4, 7, 14, 28}},
    {"qwen2.5-0.5b", {1, 2}, {1, 2}, {1, 2, 3, 4, 6, 8, 12, 24}},
    {"gpt2-xl", {1, 5, 25}, {1, 5, 25}, {1, 2, 3, 4, 6, 8, 12, 16, 24, 48}},
    {"gpt3-175b",
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96},
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96},
     {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96}},
    {"bloom-176b",
     {1, 2, 4, 7, 8, 14, 16, 28, 56, 112},
     {1, 2, 4, 7, 8, 14, 16, 28, 56, 112},
     {1, 2, 5, 7, 10, 14, 35, 70}},
    {"phi-2", {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16, 32}, {1, 2, 4, 8, 16, 32}},
};

TEST(Rules, DegreesOfPublishedModels) {
  for (const DegreesRow& row : kDegrees)
    for (const bool replicates : {true, false}) {
      Scenario s = scenario_for({.model = row.model, .gpu = kH100, .gpus = 128, .stack = kCore});
      s.stack.kv_head_replication = replicates;
      s.stack.uneven_stages = false;
      std::vector<int64_t> tps, pps;
      for (int degree = 1; degree <= 128; ++degree) {
        ParallelPlan plan{.tp = degree};
        if (first_axis_violation(s, plan).empty()) tps.push_back(degree);
        if (layers_are_legal(s, {.pp = degree})) pps.push_back(degree);
      }
      EXPECT_EQ(tps, replicates ? row.by_heads : row.without_copy) << row.model << replicates;
      EXPECT_EQ(pps, row.pp) << row.model;
    }
}

// 61 layers are a prime number: every pipeline of DeepSeek-V3 is uneven. BLOOM ran 70 layers on 12
// stages with the two embeddings in place of a layer each.
TEST(Rules, UnevenPipelines) {
  Scenario s = scenario_for({.stack = kCore});
  s.model = gpt(61, 1024, 16);
  for (int pp = 2; pp <= 61; ++pp) {
    EXPECT_EQ(layers_are_legal(s, {.pp = pp}), pp == 61);
    if (pp == 61) continue;
    const auto layouts = layer_layouts(s.stack, 61, pp);
    ASSERT_FALSE(layouts.empty()) << pp;
    for (const LayerLayout& layout : layouts)
      EXPECT_TRUE(layers_are_legal(
          s, {.pp = pp, .vpp = layout.vpp, .layers_per_stage = layout.layers_per_stage}))
          << "pp " << pp << " vpp " << layout.vpp;
  }
  s.model = gpt(70, 1024, 16);
  std::vector<int> bloom(12, 6);
  bloom.front() = bloom.back() = 5;
  EXPECT_TRUE(layers_are_legal(s, {.pp = 12, .layers_per_stage = bloom}));
}

// ---- Normal forms.

TEST(Rules, WhatHasNoEffectIsSwitchedOff) {
  const Scenario s = scenario_for({.model = "gpt3-175b", .gpus = 8, .stack = kCore, .gbs = 64});
  EXPECT_FALSE(normalized(s, {.dp = 8, .sp = true}).sp);
  EXPECT_TRUE(normalized(s, {.tp = 8, .sp = true}).sp);
  EXPECT_EQ(normalized(s, {.tp = 8, .zero = 3}).zero, 0);
  EXPECT_EQ(normalized(s, {.cp = 8, .zero = 3}).zero, 3);
  EXPECT_EQ(normalized(s, {.recompute = kSelective}).recompute, kNone);  // fused attention
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 12}}).recompute, kFull);
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 11}}).recompute.layers,
            11);
  EXPECT_THAT(normalized(s, {.pp = 2, .layers_per_stage = {48, 48}}).layers_per_stage, IsEmpty());
  EXPECT_THAT(normalized(s, {.pp = 2, .layers_per_stage = {47, 49}}).layers_per_stage,
              ElementsAre(47, 49));
  // The longest chunk decides: with 13 layers nothing of a stage is left.
  const std::vector<int> uneven = {11, 12, 12, 12, 12, 12, 12, 13};
  EXPECT_EQ(
      normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 13}, .layers_per_stage = uneven})
          .recompute,
      kFull);
  EXPECT_EQ(
      normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 12}, .layers_per_stage = uneven})
          .recompute.layers,
      12);
  // More than every layer is no normal form, it is a violation.
  EXPECT_EQ(normalized(s, {.pp = 8, .recompute = {Recompute::Mode::full, 14}}).recompute.layers,
            14);
}

}  // namespace
}  // namespace tuner
