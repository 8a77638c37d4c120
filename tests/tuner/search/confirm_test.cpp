// Single ranks among phantoms: the engine counts what was predicted, and times count only on the
// cluster's own device.
#include "tuner/search/confirm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/fake_worker.h"
#include "tests/support/scenarios.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;

class Confirming : public testing::Test {
 protected:
  Confirming() {
    setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
    scenario_ =
        test_support::scenario_for({.model = "gpt3-tiny", .gpus = 64, .gbs = 32, .seq = 32});
  }
  ~Confirming() override { unsetenv("XDG_STATE_HOME"); }

  Confirmation confirm(const engine::ParallelPlan& plan, const Launcher& launcher,
                       bool times_count = false) {
    answer_ = predict_plan(scenario_, plan);
    std::string why_not;
    const auto slice = slice_of(scenario_, plan, {1e9, 60, 1e12, 1e12}, why_not);
    if (!slice) throw std::runtime_error(why_not);
    Profiler profiler(store_, 0, launcher, Host{});
    return confirm_plan(scenario_, *slice, profiler, {.times_count = times_count}, answer_);
  }

  TemporaryFolder folder_;
  Store store_{folder_ / "runs.db"};
  Scenario scenario_;
  PlanAnswer answer_;
};

TEST_F(Confirming, TheEngineCountsWhatWasPredicted) {
  const Launcher worker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
  if (!std::ifstream(worker.worker)) GTEST_SKIP() << "this build has no worker";
  using engine::ParallelPlan;
  using Mode = engine::Recompute::Mode;
  const ParallelPlan plans[] = {
      {.dp = 8, .tp = 2, .pp = 4, .sp = true, .zero = 1, .mbs = 1, .gbs = 32},
      {.dp = 16, .tp = 2, .pp = 2, .vpp = 2, .zero = 1, .gbs = 32, .recompute = {Mode::full, 0}},
      {.dp = 32, .tp = 2, .sp = true, .zero = 1, .gbs = 32, .recompute = {Mode::selective, 0}}};
  for (const ParallelPlan& plan : plans) {
    const double before = predict_plan(scenario_, plan).predicted.step_seconds;
    const Confirmation found = confirm(plan, worker);
    EXPECT_TRUE(found.is_complete());
    EXPECT_EQ(found.stages.size(), static_cast<size_t>(std::min(plan.pp, 3)));
    for (const ConfirmedStage& stage : found.stages) {
      EXPECT_EQ(stage.status, OutcomeStatus::ok) << stage.reason;
      EXPECT_GE(stage.counts.size(), 6u);
      for (const ConfirmedCount& count : stage.counts)
        EXPECT_EQ(count.predicted, count.metered)
            << describe(plan) << ", " << stage.place << " stage: " << count.what;
    }
    EXPECT_EQ(answer_.predicted.step_seconds, before) << "this device is not the cluster's";
  }
}

TEST_F(Confirming, OnTheClustersDeviceMeasuredTimesReplaceWhatADeviceComputes) {
  const engine::ParallelPlan plan{.dp = 32, .tp = 2, .zero = 1, .gbs = 32};
  const engine::Outcome before = predict_plan(scenario_, plan).predicted;
  const Confirmation found = confirm(plan, fake_worker(folder_, good_outcome()), true);
  EXPECT_GT(found.compute_factor, 1) << "a step of half a second is long for this model";
  const auto part = [](const engine::Outcome& outcome, const std::string& name) {
    for (const auto& [one, seconds] : outcome.breakdown_seconds)
      if (one == name) return seconds;
    return -1.0;
  };
  const engine::Outcome& after = answer_.predicted;
  EXPECT_NEAR(part(after, "gemm"), found.compute_factor * part(before, "gemm"), 1e-9);
  EXPECT_EQ(part(after, "data_communication"), part(before, "data_communication"));
  EXPECT_GT(after.step_seconds, before.step_seconds);
  EXPECT_NEAR(after.mfu * after.step_seconds, before.mfu * before.step_seconds, 1e-9);
}

TEST_F(Confirming, AStageThatFailsIsTold) {
  const Confirmation found =
      confirm({.dp = 32, .tp = 2, .zero = 1, .gbs = 32}, fake_worker(folder_, "exit 3"));
  EXPECT_FALSE(found.is_complete());
  EXPECT_EQ(found.stages.front().status, OutcomeStatus::crashed);
  EXPECT_TRUE(found.stages.front().counts.empty());
}

}  // namespace
}  // namespace tuner
