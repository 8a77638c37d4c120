// What measuring makes of predicted serving plans: the truly best one within the budgets is found,
// whatever its degrees, and what fails or is cut off is not recommended.
#include "tuner/search/serve_measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/fake_worker.h"
#include "tuner/model/presets.h"

namespace tuner {
namespace {

class ServeMeasuring : public testing::Test {
 protected:
  ServeMeasuring() {
    setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
    scenario_.model = find_model("gpt3-tiny");
    scenario_.cluster = find_cluster("cpu", 2);
    scenario_.stack = find_serve_stack("autotune");
    scenario_.workload.input = 16;
    scenario_.workload.output = 32;
    use_rates(scenario_, ServeRatesTable::load());
    only_.batch = {1, 2, 4, 8, 16};
  }
  ~ServeMeasuring() override { unsetenv("XDG_STATE_HOME"); }

  // A worker whose static batch takes `seconds`, an expression of awk in which tp, pp, dp and batch
  // may stand.
  Launcher world_where_a_batch_takes(const std::string& seconds, const std::string& before = "") {
    return fake_worker(folder_,
                       R"(read_job() { sed -n 's/.*"'$1'": \([0-9]*\).*/\1/p' "$job" | head -1; }
job=$1
tp=$(read_job tp); pp=$(read_job pp); dp=$(read_job dp); batch=$(read_job batch)
steps=$(read_job steps)
)" + before + "\nt=$(awk -v tp=$tp -v pp=$pp -v dp=$dp -v batch=$batch 'BEGIN { print " +
                           seconds +
                           R"( }')
samples=$t
while [ $steps -gt 2 ]; do samples="$samples, $t"; steps=$((steps - 1)); done
spread="{\"mean\": $t, \"p50\": $t, \"p90\": $t, \"p99\": $t}"
cat > "$folder/outcome.json" <<END
{"status": "ok", "measured": true, "step_seconds": $t, "interval_seconds": [$t, $t], "fits": true,
 "tokens_per_second_per_gpu": 100, "samples_seconds": [$samples],
 "serving": {"requests": 4, "latency_seconds": $spread, "ttft_seconds": $spread,
  "tpot_seconds": $spread, "tokens_per_second": 1}}
END
)");
  }

  ServeRecommendation measured(const Launcher& launcher, const ServeBudgets& budgets,
                               const MeasureOptions& options = {}) {
    Store store(folder_ / database_);
    Profiler profiler(store, 0, launcher, Host{});
    tried_.clear();
    return recommend_serving(scenario_, only_, budgets, 0, [&](auto& candidates) {
      account_ = measure_serving(scenario_, budgets, profiler, options, candidates);
      for (const ServeCandidate& one : candidates)
        if (one.is_timed()) tried_.insert({one.plan.tp, one.plan.pp, one.plan.replicas});
      return account_;
    });
  }

  TemporaryFolder folder_;
  std::string database_ = "runs.db";
  ServeScenario scenario_;
  ServeRestrictions only_;
  ServeMeasureAccount account_;
  std::set<std::tuple<int, int, int>> tried_;
};

TEST_F(ServeMeasuring, FindsTheDegreesThatAreBestInTruth) {
  ServeBudgets budgets;
  budgets.latency_seconds = 30;
  for (const char* best : {"tp", "pp", "dp"}) {
    database_ = std::string(best) + ".db";
    const ServeRecommendation r = measured(
        world_where_a_batch_takes(std::string("0.1 * batch^0.9 * (") + best + " == 2 ? 1 : 4)"),
        budgets);
    ASSERT_TRUE(r.best->is_timed());
    const ServePlan& plan = r.best->plan;
    EXPECT_EQ(best == std::string("tp") ? plan.tp
              : best[0] == 'p'          ? plan.pp
                                        : plan.replicas,
              2)
        << best << ": " << describe(plan);
    EXPECT_EQ(plan.batch, 16);
    EXPECT_EQ(tried_.size(), 3u);
    EXPECT_LE(account_.race.order.size(), 8u);
  }
}

TEST_F(ServeMeasuring, TheLargestBatchWithinTheBudgetWins) {
  ServeBudgets budgets;
  budgets.latency_seconds = 1;
  // Predicted to take milliseconds, all of them.
  const ServeRecommendation r =
      measured(world_where_a_batch_takes("0.05 + 0.15 * batch + (tp == 1)"), budgets);
  EXPECT_EQ(r.best->plan.tp, 2) << describe(r.best->plan);
  EXPECT_EQ(r.best->plan.batch, 4);
  EXPECT_TRUE(r.best->meets());
  EXPECT_NEAR(r.best->tokens_per_second(), 4 * 32 / 0.65, 1);
}

TEST_F(ServeMeasuring, TheLowestLatencyAboveTheFloorWins) {
  ServeBudgets budgets;
  budgets.tokens_per_second = 100;
  const ServeRecommendation r =
      measured(world_where_a_batch_takes("(0.2 + 0.1 * batch) * (pp == 2 ? 1 : 3)"), budgets);
  EXPECT_EQ(r.best->plan.pp, 2) << describe(r.best->plan);
  EXPECT_EQ(r.best->plan.batch, 1) << "32 tokens in 0.3 s";
}

TEST_F(ServeMeasuring, APlanThatFailsIsNotRecommended) {
  ServeBudgets budgets;
  budgets.latency_seconds = 30;
  const ServeRecommendation r = measured(
      world_where_a_batch_takes("0.1 * batch", "[ $dp = 2 ] && { echo broken >&2; exit 1; }"),
      budgets);
  EXPECT_TRUE(r.best->is_timed());
  EXPECT_EQ(r.best->plan.replicas, 1);
}

// Larger batches are predicted to give more tokens, and give fewer.
TEST_F(ServeMeasuring, RunnersUpStandBesideTheBestByWhatWasMeasured) {
  const ServeRecommendation r =
      measured(world_where_a_batch_takes("0.1 * batch^1.2 * (tp == 2 ? 1 : 4)"), {});
  ASSERT_TRUE(r.best->is_timed());
  ASSERT_FALSE(r.runners_up.empty());
  bool contradicts = false;
  for (const ServeRunnerUp& other : r.runners_up) {
    EXPECT_TRUE(other.measured);
    EXPECT_LE(other.throughput, 0) << other.difference;
    contradicts |=
        other.candidate.predicted.tokens_per_second > r.best->predicted.tokens_per_second;
  }
  EXPECT_TRUE(contradicts) << "the case shows nothing";
  EXPECT_NE(r.reasons.front().find("predicted for a request"), std::string::npos);
  EXPECT_NE(r.reasons.at(1).find("latency, measured"), std::string::npos) << r.reasons.at(1);
}

TEST_F(ServeMeasuring, ADryRunNamesWhatWouldBeTriedFirst) {
  PlannedServeTrials planned;
  const Launcher launcher = world_where_a_batch_takes("0.1 * batch");
  recommend_serving(scenario_, only_, {}, 0, [&](auto& candidates) {
    planned = planned_trials(scenario_, {}, 8, candidates);
    return ServeMeasureAccount{};
  });
  ASSERT_EQ(planned.certain.size(), 3u) << "one of each degrees";
  EXPECT_EQ(planned.most_others, std::min<int64_t>(planned.others, 5));
  std::set<std::tuple<int, int, int>> degrees;
  for (const ServeCandidate& one : planned.certain)
    degrees.insert({one.plan.tp, one.plan.pp, one.plan.replicas});
  measured(launcher, {});
  EXPECT_TRUE(std::includes(tried_.begin(), tried_.end(), degrees.begin(), degrees.end()));
}

TEST_F(ServeMeasuring, RecallsAndDecidesAlike) {
  ServeBudgets budgets;
  budgets.latency_seconds = 30;
  const Launcher launcher = world_where_a_batch_takes("0.1 * batch^0.5 / tp");
  const ServeRecommendation first = measured(launcher, budgets);
  EXPECT_GT(account_.race.new_trials, 0);
  const ServeRecommendation again = measured(launcher, budgets);
  EXPECT_EQ(account_.race.new_trials, 0);
  EXPECT_EQ(first.best->plan, again.best->plan);
}

TEST_F(ServeMeasuring, WhatTheBudgetCutsOffIsNoFigure) {
  ServeBudgets budgets;
  budgets.latency_seconds = 30;
  const ServeRecommendation r = measured(fake_worker(folder_, "exec sleep 60"), budgets,
                                         {.most_plans = 8, .budget_seconds = 0.5});
  EXPECT_TRUE(account_.race.budget_ended);
  ASSERT_TRUE(r.best);
  EXPECT_FALSE(r.best->measured);
}

TEST_F(ServeMeasuring, PlansThatDifferInExpertsOnlyAreTwo) {
  const Launcher launcher =
      world_where_a_batch_takes("tp == 9 ? 0.1 : 0.4", "[ $(read_job ep) = 2 ] && tp=9");
  std::vector<ServeCandidate> candidates;
  for (const int ep : {1, 2}) {
    ServeCandidate& one = candidates.emplace_back();
    one.plan = {.tp = 2, .ep = ep, .weights = ServeFormat::f32, .kv = ServeFormat::f32};
    one.predicted = predict_serving(scenario_, {.tp = 2, .weights = ServeFormat::f32});
    one.predicted.latency_seconds *= ep;  // the other is predicted to be faster
  }
  Store store(folder_ / database_);
  Profiler profiler(store, 0, launcher, Host{});
  measure_serving(scenario_, {}, profiler, {}, candidates);
  ASSERT_TRUE(candidates[0].is_timed() && candidates[1].is_timed());
  EXPECT_NEAR(candidates[0].latency_seconds(), 0.4, 1e-9);
  EXPECT_NEAR(candidates[1].latency_seconds(), 0.1, 1e-9);
}

// Half a second of service under arrivals of `rate`; by the model it takes milliseconds.
TEST_F(ServeMeasuring, WhetherAPlanKeepsUpIsMeasured) {
  const ServePlan plan{.batch = 8, .weights = ServeFormat::f32, .kv = ServeFormat::f32};
  engine::Outcome measured;
  engine::ServingOutcome& serving = measured.serving.emplace();
  measured.step_seconds = 1;
  serving.requests = 56;
  serving.tpot_seconds.mean = 0.5 / 31;
  // 64 requests of 32 tokens.
  const auto ends_after = [&](double seconds) { serving.tokens_per_second = 64 * 32 / seconds; };
  ServeWorkload work = scenario_.workload;
  work.arrival = Arrival::poisson;
  work.requests_per_second = 16;
  ends_after(64 / 16.0 + 0.5);
  EXPECT_EQ(keeps_up(work, plan, measured), true);
  ends_after(64 / 8.0);
  EXPECT_EQ(keeps_up(work, plan, measured), false) << "served at half the rate";
  serving.requests = 4;
  EXPECT_EQ(keeps_up(work, plan, measured), std::nullopt) << "twelve requests do not tell";
  serving.requests = 56;
  work.arrival = Arrival::closed_loop;
  EXPECT_EQ(keeps_up(work, plan, measured), std::nullopt) << "clients wait for their answers";

  ServeCandidate candidate{plan, predict_serving(scenario_, plan), 0.5};
  candidate.measured = measured;
  EXPECT_TRUE(candidate.meets());
  const Standing carried = standing_of({}, candidate);
  candidate.kept_up = false;
  EXPECT_FALSE(candidate.meets());
  EXPECT_TRUE(carried.is_better_than(standing_of({}, candidate)));
  candidate.predicted.sustained = false;
  candidate.kept_up = true;
  EXPECT_TRUE(candidate.meets()) << "the measurement decides";
}

TEST_F(ServeMeasuring, APlanThatFallsBehindIsNotRecommended) {
  scenario_.workload.arrival = Arrival::poisson;
  scenario_.workload.requests_per_second = 20;
  only_.batch = {8};
  only_.pp = {1};
  // One replica of two ranks serves 10 requests a second, two of one rank 40.
  const Launcher launcher = fake_worker(folder_, R"(
dp=$(sed -n 's/.*"dp": \([0-9]*\).*/\1/p' "$1" | head -1)
rate=$([ $dp = 2 ] && echo 640 || echo 320)
spread='{"mean": 0.01, "p50": 0.01, "p90": 0.01, "p99": 0.01}'
cat > "$folder/outcome.json" <<END
{"status": "ok", "measured": true, "step_seconds": 0.1, "interval_seconds": [0.1, 0.1], "fits": true,
 "tokens_per_second_per_gpu": 100, "samples_seconds": [0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
 "serving": {"requests": 392, "latency_seconds": $spread, "ttft_seconds": $spread,
  "tpot_seconds": $spread, "tokens_per_second": $rate}}
END
)");
  const ServeRecommendation r = measured(launcher, {});
  ASSERT_TRUE(r.best->is_timed());
  EXPECT_EQ(r.best->plan.replicas, 2);
  EXPECT_TRUE(r.best->meets());
  ASSERT_FALSE(r.runners_up.empty());
  EXPECT_FALSE(r.runners_up.front().candidate.meets());
}

}  // namespace
}  // namespace tuner
