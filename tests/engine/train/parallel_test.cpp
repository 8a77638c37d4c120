// Every plan trains like one rank.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/train/trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

constexpr int64_t kSteps = 3;

ParallelPlan serial_plan() {
  ParallelPlan plan;
  plan.gbs = 8;
  return plan;
}

void expect_near(const TrainingRun& run, const TrainingRun& serial, double tolerance) {
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(run.losses[step], serial.losses[step], tolerance * serial.losses[step]);
    EXPECT_NEAR(run.norms[step], serial.norms[step], 10 * tolerance * serial.norms[step]);
  }
  ASSERT_EQ(run.weights.size(), serial.weights.size());
  for (const auto& [name, weights] : serial.weights) {
    ASSERT_EQ(run.weights.count(name), 1u) << name;
    const auto& others = run.weights.at(name);
    ASSERT_EQ(others.size(), weights.size()) << name;
    double worst = 0;
    for (size_t i = 0; i < weights.size(); ++i)
      worst = std::max(worst, std::abs(double{others[i]} - double{weights[i]}));
    EXPECT_LT(worst, tolerance) << name;
  }
}

void expect_serial_results(const ModelSpec& model, AttentionKind attention) {
  Job job = test_job(model, serial_plan());
  job.workload.attention = attention;
  const TrainingRun serial = train(job, kSteps);
  for (const ParallelPlan& plan : plan_lattice()) {
    SCOPED_TRACE(describe(plan));
    job.plan = plan;
    expect_near(train(job, kSteps), serial, 2e-5);
    if (testing::Test::HasFailure()) return;
  }
}

// Everything but times is equal, bit by bit.
void expect_same_bits(const TrainingRun& run, const TrainingRun& other) {
  EXPECT_EQ(run.losses, other.losses);
  EXPECT_EQ(run.norms, other.norms);
  EXPECT_EQ(run.weights, other.weights);
}

TEST(Parallel, GptTrainsLikeOneRank) { expect_serial_results(tiny::gpt(), AttentionKind::unfused); }
TEST(Parallel, LlamaTrainsLikeOneRank) {
  expect_serial_results(tiny::llama(), AttentionKind::flash);
}

TEST(Parallel, LargerMicroBatchesTrainLikeOneRank) {
  for (const ModelSpec& model : {tiny::gpt(), tiny::llama()}) {
    Job job = test_job(model, serial_plan());
    job.plan.mbs = 4;
    const TrainingRun serial = train(job, kSteps);
    for (const bool sp : {false, true})
      for (const AttentionKind kind : {AttentionKind::flash, AttentionKind::unfused}) {
        job.plan = serial_plan();
        job.plan.mbs = 2;
        job.plan.tp = 4;
        job.plan.dp = 2;
        job.plan.sp = sp;
        job.workload.attention = kind;
        SCOPED_TRACE(describe(job.plan));
        expect_near(train(job, kSteps), serial, 2e-5);
      }
  }
}

TEST(Parallel, UnevenStagesTrainLikeOneRank) {
  ModelSpec model = tiny::gpt();
  model.layers = 5;
  Job job = test_job(model, serial_plan());
  const TrainingRun serial = train(job, kSteps);
  const std::pair<int, std::vector<int>> shares[] = {
      {1, {3, 2}}, {1, {1, 4}}, {2, {2, 3}}, {1, {1, 2, 1, 1}}, {1, {0, 2, 3, 0}}};
  for (const auto& [vpp, layers] : shares) {
    job.plan.pp = static_cast<int>(layers.size());
    job.plan.vpp = vpp;
    job.plan.layers_per_stage = layers;
    SCOPED_TRACE(testing::PrintToString(layers));
    expect_near(train(job, kSteps), serial, 2e-5);
  }
}

TEST(Parallel, Bf16TrainsLikeOneRankToItsRounding) {
  if (!test_ranks::make_device()->multiplies(DType::bf16))
    GTEST_SKIP() << "this processor does not multiply bf16";
  Job job = test_job(tiny::llama(), serial_plan());
  job.workload.precision = Precision::bf16;
  const TrainingRun serial = train(job, kSteps);
  job.plan.tp = job.plan.pp = job.plan.dp = 2;
  job.plan.zero = 1;
  job.plan.sp = true;
  const TrainingRun run = train(job, kSteps);
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(run.losses[step], serial.losses[step], 2e-3 * serial.losses[step]);
    EXPECT_NEAR(run.norms[step], serial.norms[step], 3e-2 * serial.norms[step]);
  }
}

TEST(SameBits, WhateverIsRecomputed) {
  for (const AttentionKind kind : {AttentionKind::unfused, AttentionKind::flash}) {
    Job job = test_job(tiny::gpt(), serial_plan());
    job.workload.attention = kind;
    job.plan.tp = job.plan.pp = 2;
    job.plan.sp = true;
    const TrainingRun none = train(job, kSteps);
    for (const char* mode : {"selective", "full", "full:1"}) {
      SCOPED_TRACE(mode);
      job.plan.recompute = parse_recompute(mode);
      expect_same_bits(train(job, kSteps), none);
    }
  }
}

TEST(SameBits, WhateverTheSchedule) {
  if (!test_ranks::reduce_in_rank_order()) GTEST_SKIP() << "sums in an order of their own";
  for (const int dp : {1, 2}) {
    Job job = test_job(tiny::gpt(), serial_plan());
    job.plan.pp = 2;
    job.plan.dp = dp;
    const TrainingRun plain = train(job, kSteps);
    job.plan.vpp = 2;
    expect_same_bits(train(job, kSteps), plain);
    job.plan.pp = 4;
    job.plan.vpp = 1;
    expect_same_bits(train(job, kSteps), plain);
  }
}

TEST(SameBits, WhereverTheOptimizerIs) {
  if (!test_ranks::reduce_in_rank_order()) GTEST_SKIP() << "sums in an order of their own";
  for (const bool sp : {false, true}) {
    Job job = test_job(tiny::llama(), serial_plan());
    job.plan.tp = job.plan.dp = job.plan.pp = 2;
    job.plan.sp = sp;
    const TrainingRun whole = train(job, kSteps);
    job.plan.zero = 1;
    expect_same_bits(train(job, kSteps), whole);
  }
}

// An evaluation is the same under every plan, is no part of the training, and knows no dropout.
TEST(Parallel, EvaluationsAreAlike) {
  const auto run = [](const ParallelPlan& plan, bool evaluates) {
    Job job = test_job(tiny::gpt(), plan);
    std::vector<double> losses;
    test_ranks::run(plan.world(), [&](Device& device, Communicator& ranks) {
      World world(ranks, Grid(plan));
      SyntheticBatches batches(job.model.vocab, 1), held_out(job.model.vocab, 2);
      Trainer trainer(device, world, job, batches);
      const double first = evaluates ? trainer.evaluate(held_out, 2) : 0;
      const double again = evaluates ? trainer.evaluate(held_out, 2) : 0;
      EXPECT_EQ(first, again);
      const double trained = trainer.step().loss, more = trainer.step().loss;
      if (ranks.rank() == 0) losses = {first, trained, more};
    });
    return losses;
  };
  const auto serial = run(serial_plan(), true);
  EXPECT_EQ(run(serial_plan(), false)[2], serial[2]);
  for (const auto& [tp, pp, vpp, dp, zero] :
       std::vector<std::array<int, 5>>{{1, 4, 1, 2, 1}, {2, 2, 2, 1, 0}, {1, 1, 1, 4, 3}}) {
    ParallelPlan plan = serial_plan();
    plan.tp = tp;
    plan.pp = pp;
    plan.vpp = vpp;
    plan.dp = dp;
    plan.zero = zero;
    plan.sp = tp > 1;
    SCOPED_TRACE(describe(plan));
    const auto losses = run(plan, true);
    for (size_t i = 0; i < serial.size(); ++i) EXPECT_NEAR(losses[i], serial[i], 1e-4);
  }
}

TEST(Parallel, TrainingLowersTheLoss) {
  // Random tokens can only be learned by heart: one sequence, again and again.
  class OneSequence final : public Batches {
   public:
    void read(int64_t, std::span<int32_t> tokens) const override {
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 97);
    }
  };
  Job job = test_job(tiny::llama(), serial_plan());
  job.steps = 30;
  std::vector<double> losses;
  test_ranks::run(1, [&](Device& device, Communicator& ranks) {
    World world(ranks, Grid(job.plan));
    OneSequence batches;
    Trainer trainer(device, world, job, batches);
    for (int64_t step = 0; step < job.steps; ++step) losses.push_back(trainer.step().loss);
  });
  EXPECT_NEAR(losses.front(), std::log(100.0), 0.2);
  EXPECT_LT(losses.back(), 0.5);
}

}  // namespace
}  // namespace engine
