// What measuring makes of predictions: the truly fastest plan is found, failures come last, what
// was not measured is corrected, and the budget holds.
#include "tuner/search/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/support/fake_worker.h"
#include "tests/support/scenarios.h"
#include "tuner/model/memory_model.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;

class Measuring : public testing::Test {
 protected:
  Measuring() {
    setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
    scenario_ = test_support::scenario_for({.model = "gpt3-tiny",
                                            .gpu = "cpu",
                                            .gpus = 4,
                                            .stack = "autotune",
                                            .gbs = 32,
                                            .seq = 128,
                                            .precision = engine::Precision::f32});
  }
  ~Measuring() override { unsetenv("XDG_STATE_HOME"); }

  // A worker whose step takes `seconds`, a shell text that may use $tp and $zero.
  Launcher world_where_a_step_takes(const std::string& seconds, const std::string& before = "") {
    return fake_worker(folder_, R"(tp=$(sed -n 's/.*"tp": \([0-9]*\).*/\1/p' "$1")
zero=$(sed -n 's/.*"zero": \([0-9]*\).*/\1/p' "$1")
steps=$(sed -n 's/^ *"steps": \([0-9]*\).*/\1/p' "$1")
)" + before + "\nt=" + seconds + R"(
samples=$t
while [ $steps -gt 2 ]; do samples="$samples, $t"; steps=$((steps - 1)); done
cat > "$folder/outcome.json" <<END
{"status": "ok", "measured": true, "step_seconds": $t, "interval_seconds": [$t, $t], "fits": true,
 "tokens_per_second_per_gpu": 100, "tflops_per_gpu": 1, "samples_seconds": [$samples]}
END
)");
  }

  Recommendation measured(const Launcher& launcher, const MeasureOptions& options) {
    Profiler profiler(store_, 0, launcher, Host{});
    return recommend(scenario_, {}, [&](auto& plans, auto& baseline) {
      return measure_plans(scenario_, profiler, options, plans, baseline);
    });
  }

  TemporaryFolder folder_;
  Store store_{folder_ / "runs.db"};
  Scenario scenario_;
};

TEST_F(Measuring, FindsThePlanThatIsFastestInTruth) {
  // Against the prediction, in which tp 1 wins.
  ASSERT_EQ(recommend(scenario_, {}).best->plan.tp, 1);
  const Recommendation r = measured(world_where_a_step_takes("0.$((9 - tp))"), {.most_plans = 8});
  EXPECT_EQ(r.best->plan.tp, 4);
  EXPECT_EQ(r.best->step_seconds(), 0.5);
  EXPECT_EQ(r.best->measured->status, OutcomeStatus::ok);
  EXPECT_LE(r.measurement->plans.size(), 8u);
  EXPECT_TRUE(r.baseline->measured) << "the claim against the baseline is measured, too";
  EXPECT_NEAR(r.speedup_over_baseline(), r.baseline->measured->step_seconds / 0.5, 1e-9);
}

TEST_F(Measuring, CorrectsWhatWasOnlyPredicted) {
  const Recommendation before = recommend(scenario_, {});
  const Recommendation r = measured(world_where_a_step_takes("3.0"), {.most_plans = 4});
  double largest = 0;
  for (const RunnerUp& runner_up : r.runners_up)
    if (!runner_up.answer.measured)
      largest = std::max(largest, std::abs(std::log(runner_up.answer.step_seconds() / 3.0)));
  EXPECT_LT(largest, std::log(2.0)) << "predictions were off by a factor of about twenty";
  EXPECT_GT(r.measurement->correction, 5);
  EXPECT_LT(before.best->step_seconds(), 0.5);
}

TEST_F(Measuring, APlanThatFailsIsNotRecommended) {
  const Launcher launcher =
      world_where_a_step_takes("0.7", "[ $zero = 3 ] && { echo broken >&2; exit 1; }");
  const Recommendation r = measured(launcher, {.most_plans = 6});
  EXPECT_NE(r.best->plan.zero, 3);
  EXPECT_EQ(r.best->step_seconds(), 0.7);
}

TEST_F(Measuring, WhenEverythingFailsThePredictionStays) {
  const Recommendation r = measured(fake_worker(folder_, "exit 1"), {.most_plans = 3});
  ASSERT_TRUE(r.best);
  EXPECT_FALSE(r.best->is_timed());
  EXPECT_FALSE(r.best->failed()) << "a plan that was not tried is better than one that failed";
  EXPECT_EQ(r.measurement->plans.size(), 3u);
}

TEST_F(Measuring, RecallsAndDecidesAlike) {
  const Launcher launcher = world_where_a_step_takes("0.$((9 - tp))");
  const Recommendation first = measured(launcher, {.most_plans = 5});
  const Recommendation again = measured(launcher, {.most_plans = 5});
  EXPECT_GT(first.measurement->race.new_trials, 0);
  EXPECT_EQ(again.measurement->race.new_trials, 0);
  EXPECT_EQ(first.best->plan, again.best->plan);
  EXPECT_EQ(first.best->step_seconds(), again.best->step_seconds());
  ASSERT_EQ(first.runners_up.size(), again.runners_up.size());
  for (size_t i = 0; i < first.runners_up.size(); ++i)
    EXPECT_EQ(first.runners_up[i].answer.plan, again.runners_up[i].answer.plan);
}

TEST_F(Measuring, TheBudgetEndsIt) {
  const Recommendation r =
      measured(fake_worker(folder_, "exec sleep 60"), {.most_plans = 8, .budget_seconds = 0.5});
  EXPECT_TRUE(r.measurement->race.budget_ended);
  EXPECT_TRUE(r.best);
}

// The tuner's memory by use is what the engine's meter counts, through the whole chain.
TEST_F(Measuring, MeasuredBytesEqualThePrediction) {
  const Launcher worker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
  if (!std::ifstream(worker.worker)) GTEST_SKIP() << "this build has no worker";
  scenario_.workload.seq = 32;
  scenario_.workload.gbs = 8;
  const Recommendation r = measured(worker, {.most_plans = 2});
  const MemoryModel model(scenario_);
  int compared = 0;
  for (const PlanMeasurement& one : r.measurement->plans) {
    ASSERT_EQ(one.outcome.status, OutcomeStatus::ok) << one.outcome.reason;
    const engine::MemoryOutcome predicted = model.evaluate(one.plan);
    ASSERT_EQ(predicted.stages.size(), one.outcome.memory.stages.size());
    for (size_t stage = 0; stage < predicted.stages.size(); ++stage)
      for (const engine::MemoryUse use :
           {engine::MemoryUse::parameter, engine::MemoryUse::gradient, engine::MemoryUse::optimizer,
            engine::MemoryUse::activation, engine::MemoryUse::recompute}) {
        EXPECT_EQ(predicted.stages[stage][use], one.outcome.memory.stages[stage][use])
            << describe(one.plan) << ": " << name_of(use);
        ++compared;
      }
    EXPECT_LE(one.outcome.memory.peak_bytes, predicted.peak_bytes);
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace tuner
