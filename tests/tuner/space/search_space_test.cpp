// Search space: the generators against naive enumeration, restrictions, counts.
#include "tuner/space/search_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/scenarios.h"
#include "tuner/space/rules.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Recompute;
using test_support::gpt;
using test_support::Request;
using test_support::scenario_for;
using ::testing::ElementsAre;

// Every member of a plan, so that plans can be held in a set.
std::string full_text(const ParallelPlan& plan) {
  std::string text = describe(plan) + " gbs " + std::to_string(plan.gbs);
  for (const int layers : plan.layers_per_stage) text += " " + std::to_string(layers);
  return text;
}

struct World {
  std::set<std::string> plans;
  int64_t visited = 0;
  SpaceCounts counts;
};

World generated(const Scenario& s, const Restrictions& restrictions = {}) {
  World world;
  const SearchSpace space(s, restrictions);
  ParallelPlan group;
  world.counts = space.for_each([&](const ParallelPlan& entered) { group = entered; },
                                [&](const ParallelPlan& plan) {
                                  ++world.visited;
                                  EXPECT_TRUE(group.tp == plan.tp && group.cp == plan.cp &&
                                              group.sp == plan.sp && group.mbs == plan.mbs)
                                      << full_text(plan) << " outside its group";
                                  EXPECT_TRUE(world.plans.insert(full_text(plan)).second)
                                      << full_text(plan) << " twice";
                                });
  return world;
}

// Ways to place the layers: the same on every stage, and, where that cannot be, the uneven ones.
std::vector<std::vector<int>> layouts_of(const Scenario& s, int pp, int vpp) {
  std::vector<std::vector<int>> lists;
  if (s.model.layers % (pp * vpp) == 0) return {{}};
  for (const LayerLayout& layout : layer_layouts(s.stack, s.model.layers, pp))
    if (layout.vpp == vpp) lists.push_back(layout.layers_per_stage);
  return lists;
}

std::vector<Recompute> all_recomputes(int64_t layers) {
  std::vector<Recompute> all = {{}, {Recompute::Mode::selective, 0}, {Recompute::Mode::full, 0}};
  for (int n = 1; n <= layers; ++n) all.push_back({Recompute::Mode::full, n});
  return all;
}

// All combinations of all numbers, asked one by one.
std::set<std::string> enumerated(const Scenario& s) {
  std::set<std::string> plans;
  const int gpus = s.cluster.gpus;
  const int layers = static_cast<int>(s.model.layers);
  ParallelPlan plan;
  plan.gbs = s.workload.gbs;
  const auto try_all_settings = [&] {
    for (plan.mbs = 1; plan.mbs <= plan.gbs; ++plan.mbs) {
      if (plan.gbs % (plan.mbs * plan.dp) != 0) continue;  // AT0104, tested by itself
      for (const bool sp : {false, true})
        for (const Recompute& recompute : all_recomputes(layers))
          for (int zero = 0; zero <= 3; ++zero) {
            ParallelPlan one = plan;
            one.sp = sp;
            one.recompute = recompute;
            one.zero = zero;
            one = normalized(s, one);
            if (violations(s, one).empty()) plans.insert(full_text(one));
          }
    }
  };
  for (plan.tp = 1; plan.tp <= gpus; ++plan.tp)
    for (plan.cp = 1; plan.tp * plan.cp <= gpus; ++plan.cp)
      for (plan.pp = 1; plan.tp * plan.cp * plan.pp <= gpus; ++plan.pp) {
        if (gpus % (plan.tp * plan.cp * plan.pp) != 0) continue;  // AT0101, tested by itself
        plan.dp = gpus / (plan.tp * plan.cp * plan.pp);
        for (plan.vpp = 1; plan.vpp <= layers; ++plan.vpp)
          for (const std::vector<int>& list : layouts_of(s, plan.pp, plan.vpp)) {
            plan.layers_per_stage = list;
            try_all_settings();
          }
      }
  return plans;
}

struct SmallWorld {
  int gpus;
  int64_t layers, heads, kv_heads, seq, gbs;
};
const SmallWorld kWorlds[] = {{1, 4, 4, 4, 64, 4},  {8, 8, 8, 8, 64, 8},   {8, 6, 12, 4, 24, 12},
                              {12, 9, 6, 2, 36, 6}, {16, 7, 16, 4, 64, 5}, {6, 5, 7, 7, 30, 9},
                              {4, 12, 4, 1, 2, 16}};

class EveryStack : public testing::TestWithParam<std::string> {};

TEST_P(EveryStack, YieldsExactlyTheLegalPlans) {
  for (const SmallWorld& world : kWorlds)
    for (const auto attention : {engine::AttentionKind::unfused, engine::AttentionKind::flash}) {
      Scenario s = scenario_for({.gpu = "h100-80gb",
                                 .gpus = world.gpus,
                                 .stack = GetParam(),
                                 .gbs = world.gbs,
                                 .seq = world.seq});
      if (std::ranges::count(s.stack.attention, attention) == 0) continue;
      s.workload.attention = attention;
      s.model = gpt(world.layers, 64 * world.heads, world.heads);
      s.model.kv_heads = world.kv_heads;
      const World found = generated(s);
      const std::set<std::string> expected = enumerated(s);
      std::vector<std::string> missing, extra;
      std::ranges::set_difference(expected, found.plans, std::back_inserter(missing));
      std::ranges::set_difference(found.plans, expected, std::back_inserter(extra));
      EXPECT_TRUE(missing.empty()) << missing.size() << " missing, as " << missing.front();
      EXPECT_TRUE(extra.empty()) << extra.size() << " illegal, as " << extra.front();
      EXPECT_EQ(found.visited, found.counts.legal);
      int64_t removed = 0;
      for (const auto& [code, count] : found.counts.rejected) {
        EXPECT_GT(count, 0) << code;
        removed += count;
      }
      EXPECT_EQ(found.counts.candidates, found.counts.legal + removed);
    }
}

INSTANTIATE_TEST_SUITE_P(, EveryStack, testing::ValuesIn(stack_names()), [](const auto& suite) {
  std::string name = suite.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// ---- Restrictions.

class Restricted : public testing::Test {
 protected:
  Scenario scenario_ = scenario_for({.gpus = 64, .gbs = 64});

  // Every plan of the free space that `allowed` holds for, and no other.
  template <class Allowed>
  void expect(const Restrictions& restrictions, Allowed allowed) {
    std::set<std::string> expected;
    SearchSpace(scenario_, {})
        .for_each([](const ParallelPlan&) {},
                  [&](const ParallelPlan& plan) {
                    if (allowed(plan)) expected.insert(full_text(plan));
                  });
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(generated(scenario_, restrictions).plans, expected);
  }
};

TEST_F(Restricted, Degrees) {
  expect({.tp = {4, 8}}, [](const auto& p) { return p.tp == 4 || p.tp == 8; });
  expect({.pp = {2, 5, 8}}, [](const auto& p) { return p.pp == 2 || p.pp == 8; });
  expect({.vpp = {3}}, [](const auto& p) { return p.vpp == 3; });
  expect({.dp = {8}}, [](const auto& p) { return p.dp == 8; });
  expect({.mbs = {2, 3}}, [](const auto& p) { return p.mbs == 2; });
  expect({.dp = {2}, .tp = {8}, .pp = {4}, .vpp = {1, 2}},
         [](const auto& p) { return p.dp == 2 && p.tp == 8 && p.pp == 4 && p.vpp <= 2; });
}

// A setting without effect is as good as the one that was asked for.
TEST_F(Restricted, Settings) {
  expect({.sp = true}, [](const auto& p) { return p.sp || p.tp == 1; });
  expect({.sp = false}, [](const auto& p) { return !p.sp; });
  expect({.zero = {1}}, [](const auto& p) { return p.zero == 1 || p.dp == 1; });
  expect({.zero = {0}}, [](const auto& p) { return p.zero == 0; });
  expect({.recompute = {{}, {Recompute::Mode::selective, 0}}},
         [](const auto& p) { return p.recompute.mode != Recompute::Mode::full; });
  expect({.recompute = {{Recompute::Mode::full, 2}}}, [](const auto& p) {
    const int chunk = 96 / (p.pp * p.vpp);
    return p.recompute == Recompute{Recompute::Mode::full, chunk == 2 ? 0 : 2} && chunk >= 2;
  });
  scenario_.workload.attention = engine::AttentionKind::flash;
  expect({.recompute = {{Recompute::Mode::selective, 0}}},
         [](const auto& p) { return p.recompute.mode == Recompute::Mode::none; });
}

// On every stack, whatever it can do: no plan that breaks a rule, and equal shares are the plans of
// no list at all.
TEST_F(Restricted, LayersPerStage) {
  const std::vector<int> uneven = {9, 10, 11, 10}, ends = {19, 21}, even = {10, 10, 10, 10};
  for (const std::string& stack : stack_names()) {
    scenario_ = scenario_for(
        {.model = "gpt3-13b", .gpu = "h100-80gb", .gpus = 16, .stack = stack, .gbs = 16});
    for (const std::vector<int>& list : {uneven, ends}) {
      int64_t plans = 0;
      SearchSpace(scenario_, {.layers_per_stage = list})
          .for_each(
              [](const ParallelPlan&) {},
              [&](const ParallelPlan& plan) {
                ++plans;
                EXPECT_EQ(plan.layers_per_stage, list);
                EXPECT_THAT(test_support::codes_of(violations(scenario_, plan)), testing::IsEmpty())
                    << stack << " " << full_text(plan);
              });
      EXPECT_EQ(plans > 0, scenario_.stack.any_layers_per_stage) << stack;
    }
    EXPECT_EQ(generated(scenario_, {.layers_per_stage = even}).plans,
              generated(scenario_, {.pp = {4}}).plans);
  }
}

TEST_F(Restricted, NothingIsLeft) {
  for (const Restrictions& none :
       {Restrictions{.tp = {5}}, Restrictions{.dp = {3}}, Restrictions{.mbs = {7}},
        Restrictions{.zero = {3}}, Restrictions{.cp = {2}},
        Restrictions{.layers_per_stage = {1, 2, 3}}})
    EXPECT_EQ(generated(scenario_, none).counts.legal, 0);
}

// ---- Layouts of layers.

TEST(LayerLayouts, OnlyWhereEvenOnesDoNotExist) {
  const Stack core = find_stack("megatron-core");
  for (int layers = 1; layers <= 40; ++layers)
    for (int pp = 1; pp <= 24; ++pp) {
      std::map<int, std::set<std::vector<int>>> by_vpp;
      for (const LayerLayout& layout : layer_layouts(core, layers, pp)) {
        EXPECT_TRUE(by_vpp[layout.vpp].insert(layout.layers_per_stage).second);
        const bool even = layers % (pp * layout.vpp) == 0;
        EXPECT_EQ(layout.layers_per_stage.empty(), even);
        if (!even) {
          const auto& list = layout.layers_per_stage;
          EXPECT_EQ(static_cast<int>(list.size()), pp);
          int sum = 0;
          for (const int share : list) {
            EXPECT_GE(share, 1);
            EXPECT_LE(share, layout.chunk_layers * layout.vpp);
            sum += share;
          }
          EXPECT_EQ(sum, layers);
        }
      }
      // A pipeline that is no longer than the model has a layout.
      EXPECT_EQ(by_vpp.contains(1), pp <= layers) << layers << " layers, pp " << pp;
    }
  EXPECT_THAT(layer_layouts(find_stack("megatron-2022"), 126, 8), testing::IsEmpty());
}

TEST(Divisors, AscendAndAreComplete) {
  EXPECT_THAT(divisors(1), ElementsAre(1));
  EXPECT_THAT(divisors(12), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(divisors(49), ElementsAre(1, 7, 49));
  EXPECT_EQ(divisors(1'000'000'000).size(), 100U);
}

}  // namespace
}  // namespace tuner
