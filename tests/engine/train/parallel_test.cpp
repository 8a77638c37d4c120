// Every plan trains like one rank.
#include <gtest/gtest.h>

#include <cmath>

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

TEST(Parallel, GptTrainsLikeOneRank) { expect_serial_results(tiny::gpt(), AttentionKind::unfused); }
TEST(Parallel, LlamaTrainsLikeOneRank) {
  expect_serial_results(tiny::llama(), AttentionKind::flash);
}

}  // namespace
}  // namespace engine
