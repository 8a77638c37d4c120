// Single ranks among phantoms: the engine counts what was predicted, and times count only on the
// cluster's own device.
#include "tuner/search/confirm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <set>

#include "tests/support/fake_worker.h"
#include "tests/support/scenarios.h"
#include "tuner/model/batching.h"
#include "tuner/search/recommendation.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;

const Launcher kWorker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
bool has_worker() { return static_cast<bool>(std::ifstream(kWorker.worker)); }

ServeScenario serving(const std::string& model, const std::string& gpu, int gpus) {
  ServeScenario s;
  s.model = find_model(model);
  s.cluster = find_cluster(gpu, gpus);
  s.stack = find_serve_stack("vllm");
  s.workload.input = 24;
  s.workload.output = 6;
  use_rates(s, ServeRatesTable::load());
  return s;
}

void expect_equal_counts(const Confirmation& found, const std::string& of) {
  EXPECT_TRUE(found.is_complete());
  for (const ConfirmedStage& stage : found.stages) {
    EXPECT_EQ(stage.status, OutcomeStatus::ok) << stage.reason;
    for (const ConfirmedCount& count : stage.counts)
      EXPECT_EQ(count.predicted, count.metered)
          << of << ", " << stage.place << " stage: " << count.what;
  }
}

// The counts of a stage by their names.
std::set<std::string> counted(const ConfirmedStage& stage) {
  std::set<std::string> names;
  for (const ConfirmedCount& count : stage.counts) names.insert(count.what);
  return names;
}

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
    Confirmation found = confirm_slice(*slice, profiler, {.times_count = times_count});
    if (times_count) take_measured_compute(found.compute_factor, answer_.predicted);
    return found;
  }

  Confirmation confirm(const ServeScenario& scenario, const ServePlan& plan,
                       const Launcher& launcher, const ConfirmOptions& options = {},
                       const SliceRoom& room = {1e9, 60, 1e12, 1e12}) {
    std::string why_not;
    const auto slice = slice_of(scenario, plan, room, why_not);
    if (!slice) throw std::runtime_error(why_not);
    Profiler profiler(store_, 0, launcher, Host{});
    return confirm_slice(*slice, profiler, options);
  }

  TemporaryFolder folder_;
  Store store_{folder_ / "runs.db"};
  Scenario scenario_;
  PlanAnswer answer_;
};

TEST_F(Confirming, TheEngineCountsWhatWasPredicted) {
  if (!has_worker()) GTEST_SKIP() << "this build has no worker";
  using engine::ParallelPlan;
  using Mode = engine::Recompute::Mode;
  const ParallelPlan plans[] = {
      {.dp = 8, .tp = 2, .pp = 4, .sp = true, .zero = 1, .mbs = 1, .gbs = 32},
      {.dp = 16, .tp = 2, .pp = 2, .vpp = 2, .zero = 1, .gbs = 32, .recompute = {Mode::full, 0}},
      {.dp = 32, .tp = 2, .sp = true, .zero = 1, .gbs = 32, .recompute = {Mode::selective, 0}}};
  for (const ParallelPlan& plan : plans) {
    const double before = predict_plan(scenario_, plan).predicted.step_seconds;
    const Confirmation found = confirm(plan, kWorker);
    EXPECT_EQ(found.stages.size(), static_cast<size_t>(std::min(plan.pp, 3)));
    expect_equal_counts(found, describe(plan));
    for (const ConfirmedStage& stage : found.stages) EXPECT_GE(stage.counts.size(), 6u);
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

TEST_F(Confirming, TheEngineCountsWhatWasPredictedOfServing) {
  if (!has_worker()) GTEST_SKIP() << "this build has no worker";
  const auto of = [](int tp, int pp, int64_t batch, ServeFormat weights) {
    return ServePlan{.tp = tp, .pp = pp, .batch = batch, .weights = weights, .kv = weights};
  };
  ServeScenario gpt = serving("gpt3-tiny", "a100-80gb", 16), llama = gpt;
  llama.model = tiny::llama();
  llama.model.positions = 64;
  // Tied, learned and untied ends; more ranks than KV heads; batches that slots share unevenly, of
  // fewer sequences than stages, and of more than are sampled at once.
  const std::pair<ServeScenario, ServePlan> all[] = {
      {gpt, of(1, 1, 3, ServeFormat::f32)},   {gpt, of(2, 4, 6, ServeFormat::f32)},
      {gpt, of(1, 3, 2, ServeFormat::f32)},   {gpt, of(2, 1, 300, ServeFormat::f32)},
      {llama, of(2, 2, 3, ServeFormat::f32)}, {llama, of(4, 1, 2, ServeFormat::f32)}};
  for (const auto& [scenario, plan] : all) {
    const Confirmation found = confirm(scenario, plan, kWorker);
    const std::string name = scenario.model.name + " " + describe(plan);
    EXPECT_EQ(found.stages.size(), static_cast<size_t>(std::min(plan.pp, 3))) << name;
    expect_equal_counts(found, name);
    for (const ConfirmedStage& stage : found.stages) {
      EXPECT_EQ(counted(stage).count("kv_cache memory"), 1u) << name;
      EXPECT_EQ(counted(stage).count("tp all_reduce"), plan.tp > 1 ? 1u : 0u) << name;
      EXPECT_EQ(counted(stage).count("pp send"), plan.pp > 1 ? 1u : 0u) << name;
    }
  }
}

// One rank of eight of GPT-3 175B, in true shapes with one of 96 layers.
TEST_F(Confirming, ABigModelIsConfirmedOnASmallMachine) {
  if (!has_worker()) GTEST_SKIP() << "this build has no worker";
  ServeScenario scenario = serving("175b", "a100-80gb", 8);
  const ServePlan plan{.tp = 8, .batch = 16, .weights = ServeFormat::fp16, .kv = ServeFormat::fp16};
  const SliceRoom room{1.5e9, 1, 100e9, 1e9};
  const Confirmation found = confirm(scenario, plan, kWorker, {}, room);
  expect_equal_counts(found, "175b");
  EXPECT_EQ(found.layers, 1);
  EXPECT_EQ(found.of_layers, 96);
  ASSERT_EQ(found.stages.size(), 1u);
  EXPECT_EQ(counted(found.stages[0]),
            (std::set<std::string>{"parameter memory", "kv_cache memory", "matrix products",
                                   "tp all_gather", "tp all_reduce", "tp broadcast"}));
  EXPECT_LT(found.stages[0].peak_bytes, room.bytes);
  EXPECT_GT(found.stages[0].peak_bytes, 0.6 * found.stages[0].predicted_bytes);
  EXPECT_EQ(found.compute_factor, 1) << "this device is not the cluster's";
  EXPECT_EQ(confirm(scenario, plan, kWorker, {}, room).new_trials, 0) << "it is recalled";
}

TEST_F(Confirming, OnTheClustersDeviceServingTakesItsMeasuredTime) {
  ServeScenario scenario = serving("llama-3.1-70b", "h100-80gb", 8);
  const ServePlan plan{.tp = 8, .batch = 4};
  const Confirmation found =
      confirm(scenario, plan, fake_worker(folder_, good_outcome("50, 50, 50, 50, 50")),
              {.times_count = true}, {1e12, 1e9, 1e15, 1e12});
  EXPECT_NEAR(found.compute_factor, 50 / found.stages[0].predicted_seconds, 1e-9);
  EXPECT_GT(found.compute_factor, 10) << "fifty seconds are long for it";
  const ServePrediction before = predict_serving(scenario, plan);
  scenario.compute_factor = found.compute_factor;
  const ServePrediction after = predict_serving(scenario, plan);
  for (const auto& [old, now] :
       {std::pair{before.prefill, after.prefill}, std::pair{before.decode, after.decode}}) {
    EXPECT_NEAR(now[ServePart::weights], found.compute_factor * old[ServePart::weights],
                1e-6 * now[ServePart::weights]);
    EXPECT_EQ(now[ServePart::communication], old[ServePart::communication]);
  }
  EXPECT_GT(after.latency_seconds, 5 * before.latency_seconds);
}

TEST_F(Confirming, AnInterruptionLeavesTheRestForTheNextTime) {
  const ServeScenario scenario = serving("llama-3.1-70b", "h100-80gb", 8);
  const ServePlan plan{.tp = 2, .pp = 4, .batch = 4};
  const SliceRoom room{1e12, 1e9, 1e15, 1e12};
  std::atomic<int> stop = 0;
  int ranks = 0;
  const ConfirmOptions options = {
      .stop = &stop, .progress = [&](const std::string&) { stop = ++ranks == 2 ? SIGINT : 0; }};
  const Launcher worker = fake_worker(folder_, good_outcome("0.5"));
  const Confirmation first = confirm(scenario, plan, worker, options, room);
  EXPECT_TRUE(first.interrupted);
  EXPECT_FALSE(first.is_complete());
  EXPECT_LT(first.stages.size(), 3u);
  const Confirmation again = confirm(scenario, plan, worker, {}, room);
  EXPECT_TRUE(again.is_complete());
  EXPECT_EQ(again.stages.size(), 3u);
  EXPECT_EQ(again.new_trials, 2) << "the first one is recalled";
}

}  // namespace
}  // namespace tuner
