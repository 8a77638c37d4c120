// Cost model: published step times, sums, monotony, and the simulation against the closed form.
#include "tuner/model/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "engine/plan/schedule.h"
#include "tests/support/scenarios.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/pipeline_simulation.h"
#include "tuner/space/search_space.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::PipelineStep;
using engine::Precision;
using engine::Recompute;
using test_support::Request;
using test_support::scenario_for;

constexpr Recompute kSelective{Recompute::Mode::selective, 0};
constexpr Recompute kFull{Recompute::Mode::full, 0};

double simulated_seconds(const Scenario& scenario, const ParallelPlan& plan) {
  const CostModel model(scenario);
  return model.simulated_step(model.micro_batch_cost(plan), plan).total();
}

double closed_seconds(const Scenario& scenario, const ParallelPlan& plan) {
  const CostModel model(scenario);
  return model.step(model.micro_batch_cost(plan), plan).total();
}

// arXiv 2205.05198, table 5: full recomputation, and SP with selective recomputation.
struct Published {
  const char* model;
  ParallelPlan plan;
  double full_seconds;
  double selective_seconds;
};
const Published kKorthikanti[] = {
    {"megatron-22b", {.tp = 8, .mbs = 4, .gbs = 4}, 1.42, 1.10},
    {"megatron-175b", {.tp = 8, .pp = 8, .vpp = 3, .gbs = 64}, 18.13, 13.75},
    {"megatron-530b", {.tp = 8, .pp = 35, .vpp = 3, .gbs = 280}, 49.05, 37.83},
    {"megatron-1t", {.tp = 8, .pp = 64, .gbs = 512}, 94.42, 71.49},
};

TEST(CostModel, Korthikanti2022) {
  constexpr double kBound = 0.08;
  for (const Published& row : kKorthikanti) {
    const Scenario s = scenario_for({.model = row.model,
                                     .gpus = row.plan.world(),
                                     .gbs = row.plan.gbs,
                                     .precision = Precision::fp16});
    ParallelPlan plan = row.plan;
    plan.recompute = kFull;
    EXPECT_NEAR(simulated_seconds(s, plan) / row.full_seconds, 1, kBound) << row.model << " full";
    plan.recompute = kSelective;
    plan.sp = true;
    EXPECT_NEAR(simulated_seconds(s, plan) / row.selective_seconds, 1, kBound)
        << row.model << " selective";
  }
}

// ---- The event simulation.

// The longest path through the schedule, written down anew: passes in any order until all are done.
double longest_path(const PipelineTimes& times, int64_t micro_batches) {
  const int stages = times.stages(), chunks = times.chunks(), last = stages * chunks - 1;
  std::map<std::tuple<bool, int, int64_t>, double> ends;  // forward, place, micro-batch
  std::vector<std::vector<PipelineStep>> lists;
  std::vector<size_t> next(static_cast<size_t>(stages));
  std::vector<double> clock(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage)
    lists.push_back(engine::make_schedule({stages, chunks, micro_batches}, stage));
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      if (next[stage] == lists[stage].size()) continue;
      const PipelineStep step = lists[stage][next[stage]];
      const int place = step.chunk * stages + static_cast<int>(stage);
      const bool forward = step.kind == PipelineStep::Kind::forward;
      double ready = 0;
      if (forward ? place > 0 : place < last) {
        const auto input = ends.find({forward, forward ? place - 1 : place + 1, step.micro_batch});
        if (input == ends.end()) continue;
        ready = input->second;
      }
      const int s = static_cast<int>(stage);
      clock[stage] = std::max(clock[stage], ready) +
                     (forward ? times.forward(s, step.chunk) : times.backward(s, step.chunk));
      ends[{forward, place, step.micro_batch}] = clock[stage];
      ++next[stage];
      moved = true;
    }
  }
  return *std::ranges::max_element(clock);
}

PipelineTimes times_of(int stages, int chunks, double end_weight) {
  PipelineTimes times(stages, chunks);
  for (int stage = 0; stage < stages; ++stage)
    for (int chunk = 0; chunk < chunks; ++chunk) {
      double weight = 1;
      if (stage == 0 && chunk == 0) weight += end_weight / 3;
      if (stage == stages - 1 && chunk == chunks - 1) weight += end_weight;
      times.set(stage, chunk, weight, 2 * weight);
    }
  return times;
}

struct Pipeline {
  int stages, chunks;
  int64_t micro_batches;
};
const Pipeline kPipelines[] = {{1, 1, 4},  {2, 1, 1},    {4, 1, 2},  {4, 1, 4},  {4, 1, 37},
                               {8, 1, 64}, {2, 2, 2},    {4, 2, 4},  {4, 3, 40}, {8, 4, 16},
                               {3, 5, 9},  {16, 1, 300}, {8, 2, 64}, {4, 2, 7},  {8, 3, 27}};

TEST(PipelineSimulation, EqualsTheLongestPath) {
  for (const auto& [stages, chunks, m] : kPipelines)
    for (const double weight : {0.0, 0.4, 3.0}) {
      const PipelineTimes times = times_of(stages, chunks, weight);
      EXPECT_DOUBLE_EQ(simulate_pipeline(times, m), longest_path(times, m))
          << stages << " stages " << chunks << " chunks " << m << " micro-batches";
    }
}

// Long steps are extrapolated; every remainder of the micro-batches has its own group of chunks.
TEST(PipelineSimulation, ExtrapolationEqualsTheLongestPath) {
  for (const auto& [stages, chunks] : {std::pair{4, 1}, {8, 2}, {6, 5}, {16, 3}})
    for (const int64_t more : {0, 1, 2, 3, 5}) {
      const int64_t m = 40'000 / (2 * stages * chunks) / stages * stages + 4 * stages + more;
      for (const double weight : {0.0, 0.4}) {
        const PipelineTimes times = times_of(stages, chunks, weight);
        const double exact = longest_path(times, m);
        EXPECT_NEAR(simulate_pipeline(times, m) / exact, 1, 0.002)
            << stages << " stages " << chunks << " chunks " << m << " micro-batches " << weight;
      }
    }
}

// Equal stages: m · t + (p − 1) · t / v, Narayanan et al. 2021, section 2.2.
TEST(PipelineSimulation, EqualStagesFollowTheFormula) {
  for (const auto& [stages, chunks, m] : kPipelines) {
    if (chunks > 1 && m % stages != 0) continue;  // groups of other sizes wait longer
    const double pass = 3.0 * chunks;
    const double formula = static_cast<double>(m) * pass + (stages - 1) * pass / chunks;
    EXPECT_NEAR(simulate_pipeline(times_of(stages, chunks, 0), m) / formula, 1, 0.005)
        << stages << " stages " << chunks << " chunks " << m << " micro-batches";
  }
}

// The head makes the last stage heavier; the closed form stays close for steps of any length.
TEST(CostModel, SimulationAgreesWithTheClosedForm) {
  for (const char* stack : {"megatron-2022", "megatron-core"})
    for (const int pp : {2, 4, 8, 16})
      for (const int vpp : {1, 2, 3})
        for (const int64_t m : {1, 2, 4, 8, 64}) {
          const int64_t micro_batches = m * pp;
          const Scenario s = scenario_for({.gpus = 8 * pp, .stack = stack, .gbs = micro_batches});
          const ParallelPlan plan{.tp = 8, .pp = pp, .vpp = vpp, .sp = true, .gbs = micro_batches};
          EXPECT_NEAR(simulated_seconds(s, plan) / closed_seconds(s, plan), 1, 0.03)
              << stack << " pp " << pp << " vpp " << vpp << " m " << micro_batches;
        }
}

// ---- Sanity of any plan.

TEST(CostModel, PartsSumToTheStep) {
  for (const Request& request : {Request{}, Request{.stack = "megatron-core"}}) {
    const Scenario s = scenario_for(request);
    const ParallelPlan plan{.dp = 16,
                            .tp = 8,
                            .pp = 8,
                            .vpp = 2,
                            .sp = true,
                            .zero = 1,
                            .gbs = 1536,
                            .recompute = {Recompute::Mode::full, 3}};
    engine::Outcome outcome;
    CostModel(s).fill_outcome(plan, outcome);
    double sum = 0;
    for (const auto& [name, seconds] : outcome.breakdown_seconds) {
      EXPECT_GE(seconds, 0) << name;
      sum += seconds;
    }
    EXPECT_NEAR(sum, outcome.step_seconds, 1e-12 * sum);
    EXPECT_EQ(outcome.breakdown_seconds.size(), static_cast<size_t>(kStepParts));
    EXPECT_LT(outcome.interval_seconds.low, outcome.step_seconds);
    EXPECT_GT(outcome.interval_seconds.high, outcome.step_seconds);
    EXPECT_DOUBLE_EQ(outcome.tokens_per_second_per_gpu,
                     1536.0 * 2048 / outcome.step_seconds / 1024);
    EXPECT_DOUBLE_EQ(outcome.mfu, outcome.tflops_per_gpu / 312);
  }
}

TEST(CostModel, TheIntervalHolds90Percent) {
  const engine::Interval interval = interval_of(10, 0.1);
  EXPECT_NEAR(std::log(interval.high / 10), 1.6449 * 0.1, 1e-12);
  EXPECT_NEAR(std::log(10 / interval.low), 1.6449 * 0.1, 1e-12);
}

// Each part stands where its cause is.
TEST(CostModel, PartsHaveTheirCauses) {
  const Scenario s = scenario_for({.gpus = 8, .gbs = 64});
  const auto part = [&](const ParallelPlan& plan, StepPart which) {
    const CostModel model(s);
    return model.step(model.micro_batch_cost(plan), plan)[which];
  };
  const ParallelPlan alone{.gbs = 64};
  for (const StepPart none :
       {StepPart::tensor_communication, StepPart::context_communication, StepPart::recompute,
        StepPart::pipeline_communication, StepPart::bubble, StepPart::data_communication})
    EXPECT_EQ(part(alone, none), 0) << name_of(none);
  EXPECT_GT(part({.tp = 8, .gbs = 64}, StepPart::tensor_communication), 0);
  EXPECT_GT(part({.pp = 8, .gbs = 64}, StepPart::bubble), 0);
  EXPECT_GT(part({.pp = 8, .gbs = 64}, StepPart::pipeline_communication), 0);
  EXPECT_GT(part({.dp = 8, .gbs = 64}, StepPart::data_communication), 0);
  EXPECT_GT(part({.gbs = 64, .recompute = kFull}, StepPart::recompute), 0);
  EXPECT_GT(part({.gbs = 64, .recompute = kFull}, StepPart::recompute),
            part({.gbs = 64, .recompute = {Recompute::Mode::full, 48}}, StepPart::recompute));
  EXPECT_GT(part({.dp = 8, .gbs = 64}, StepPart::optimizer),
            part({.dp = 8, .zero = 1, .gbs = 64}, StepPart::optimizer));
}

// Every stack on every GPU that runs it: finite numbers, no more FLOPs than the datasheet has, and
// a machine with more of anything is never slower.
class AnyPlan : public testing::TestWithParam<std::string> {};

std::vector<ParallelPlan> sample(const Scenario& scenario, size_t count) {
  std::vector<ParallelPlan> plans;
  std::mt19937 random(7);
  int64_t seen = 0;
  const auto ignore = [](const ParallelPlan&) {};
  SearchSpace(scenario, {.mbs = {1, 4}}).for_each(ignore, [&](const ParallelPlan& plan) {
    ++seen;
    if (plans.size() < count)
      plans.push_back(plan);
    else if (const auto place = random() % static_cast<uint64_t>(seen); place < count)
      plans[place] = plan;
  });
  return plans;
}

void multiply(BusBandwidth& bus, double factor) {
  for (auto& [ranks, rate] : bus.by_ranks) rate *= factor;
}

// Also where stages or chunks hold different numbers of layers, which the closed form only
// averages.
TEST(CostModel, SimulationAgreesForAnyLegalPlan) {
  for (const Request& request :
       {Request{.gpus = 128, .gbs = 128}, Request{.model = "llama-3.1-405b",
                                          .gpu = "h100-80gb",
                                          .gpus = 128,
                                          .stack = "megatron-core",
                                          .gbs = 252,
                                          .seq = 8192}}) {
    const Scenario s = scenario_for(request);
    for (const ParallelPlan& plan : sample(s, 300)) {
      const double ratio = simulated_seconds(s, plan) / closed_seconds(s, plan);
      EXPECT_GT(ratio, 0.99) << describe(plan);
      EXPECT_LT(ratio, 1.03) << describe(plan);
    }
  }
}

TEST_P(AnyPlan, IsFiniteAndBelowThePeak) {
  for (const std::string& stack : stack_names())
    for (const char* model : {"llama-3.1-8b", "gpt3-2.7b"}) {
      const Scenario s =
          scenario_for({.model = model, .gpu = GetParam(), .gpus = 32, .stack = stack, .gbs = 64});
      if (s.cluster.device.peak(s.workload.precision) <= 0) continue;
      if (s.cluster.interconnect.nic_bytes_per_second == 0) continue;  // one host only
      const CostModel model_of_cost(s);
      for (const ParallelPlan& plan : sample(s, 12)) {
        engine::Outcome outcome;
        model_of_cost.fill_outcome(plan, outcome);
        const std::string what = stack + " " + model + " " + describe(plan);
        ASSERT_TRUE(std::isfinite(outcome.step_seconds) && outcome.step_seconds > 0) << what;
        ASSERT_GT(outcome.mfu, 0) << what;
        ASSERT_LE(outcome.mfu, 1) << what;
        for (const auto& [name, seconds] : outcome.breakdown_seconds)
          ASSERT_TRUE(std::isfinite(seconds) && seconds >= 0) << what << " " << name;
      }
    }
}

TEST_P(AnyPlan, IsNeverSlowerOnAFasterMachine) {
  const std::string stack = GetParam() == "cpu" ? "autotune" : "megatron-core";
  const Scenario s = scenario_for(
      {.model = "gpt3-2.7b", .gpu = GetParam(), .gpus = 32, .stack = stack, .gbs = 64});
  if (s.cluster.interconnect.nic_bytes_per_second == 0) return;
  const std::pair<const char*, void (*)(ClusterSpec&)> upgrades[] = {
      {"peak",
       [](ClusterSpec& c) {
         for (double& peak : c.device.peak_flops) peak *= 1.5;
       }},
      {"memory", [](ClusterSpec& c) { c.device.memory_bytes_per_second *= 1.5; }},
      {"link",
       [](ClusterSpec& c) {
         multiply(c.interconnect.all_reduce, 1.5);
         multiply(c.interconnect.shard, 1.5);
         c.interconnect.p2p_bytes_per_second *= 1.5;
       }},
      {"network", [](ClusterSpec& c) { c.interconnect.nic_bytes_per_second *= 1.5; }}};
  for (const ParallelPlan& plan : sample(s, 40))
    for (const auto& [name, upgrade] : upgrades) {
      Scenario faster = s;
      upgrade(faster.cluster);
      ASSERT_LE(simulated_seconds(faster, plan), simulated_seconds(s, plan) * (1 + 1e-12))
          << name << " " << describe(plan);
    }
}

INSTANTIATE_TEST_SUITE_P(, AnyPlan, testing::ValuesIn(cluster_names()), [](const auto& suite) {
  std::string name = suite.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace tuner
