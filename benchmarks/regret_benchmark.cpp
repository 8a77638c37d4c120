// Regret: how good the tuner's pick is where the truth is known, because every legal plan was
// measured. Truth is kept in a folder, so that an interrupted run goes on and a second one is
// quick.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "benchmarks/regret.h"
#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/presets.h"
#include "tuner/profile/profiler.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/measure.h"
#include "tuner/space/search_space.h"
#include "tuner/validate/statistics.h"

namespace {

using namespace tuner;
using benchmarks::print_goal;
using engine::format_bytes;
using engine::format_seconds;
using engine::OutcomeStatus;
using engine::ParallelPlan;

constexpr int kTurns = 3;
constexpr int64_t kSamplesATurn = 3;
constexpr double kTunerShare = 0.1;    // of the cost of the truth
constexpr double kMemoryShare = 0.55;  // of what the hungriest plan needs

struct Space {
  std::string name;
  Scenario scenario;
};

Space space_of(const engine::ModelSpec& model, int ranks, const ClusterSpec& cluster) {
  Space space{fmt::format("{} on {} ranks", model.name, ranks), {}};
  Scenario& s = space.scenario;
  s.model = model;
  s.cluster = cluster;
  s.stack = find_stack("autotune");
  s.workload.seq = 64;
  s.workload.gbs = 8;
  s.workload.tokens = 1e9;
  s.workload.precision = engine::Precision::f32;
  s.workload.attention = engine::AttentionKind::flash;
  s.rates = RatesTable::load().resolve(s.cluster, s.stack, s.workload.precision);
  return space;
}

std::vector<ParallelPlan> legal_plans(const Scenario& scenario) {
  std::vector<ParallelPlan> plans;
  SearchSpace(scenario, {})
      .for_each([](const ParallelPlan&) {},
                [&](const ParallelPlan& plan) { plans.push_back(plan); });
  return plans;
}

// A limit under which the plans that save everything on every rank do not fit.
void bind_memory(Scenario& scenario) {
  const MemoryModel memory(scenario);
  double most = 0;
  for (const ParallelPlan& plan : legal_plans(scenario)) {
    const engine::MemoryOutcome outcome = memory.evaluate(plan);
    most = std::max(most, outcome.peak_bytes - scenario.runtime_bytes());
  }
  scenario.cluster.device.memory_bytes = scenario.runtime_bytes() + kMemoryShare * most;
}

struct Truth {
  ParallelPlan plan;
  double predicted = 0;
  std::vector<double> samples;
  SampleSummary summary;
  double resident = 0, expected = 0;  // bytes of a rank
};

struct Report {
  int64_t legal = 0, fit = 0, out_of_memory = 0, failed = 0;
  double cost_seconds = 0;  // of the truth
  std::vector<Truth> truth;
};

// Every plan that is said to fit, in turns. Throws Error when asked to stop.
Report find_truth(const Space& space, Profiler& profiler, const StopSignals& signals) {
  Report report;
  const MemoryModel memory(space.scenario);
  const CostModel cost(space.scenario);
  for (const ParallelPlan& plan : legal_plans(space.scenario)) {
    ++report.legal;
    if (!memory.fits(memory.peak_bytes(memory.rank_memory(plan), plan))) continue;
    Truth truth;
    truth.plan = plan;
    truth.predicted = cost.simulated_step(cost.micro_batch_cost(plan), plan).total();
    report.truth.push_back(std::move(truth));
  }
  report.fit = static_cast<int64_t>(report.truth.size());
  TrialLimits limits;
  limits.stop = &signals.seen();
  for (int turn = 1; turn <= kTurns; ++turn) {
    size_t done = 0;
    for (Truth& truth : report.truth) {
      if (++done % 25 == 0)
        std::cerr << fmt::format("{}: turn {} of {}, plan {} of {}\n", space.name, turn, kTurns,
                                 done, report.fit);
      const Measurement found =
          profiler.measure(job_of(space.scenario, truth.plan), turn * kSamplesATurn, limits);
      if (signals.seen() != 0)
        throw engine::Error(engine::ExitCode::interrupted, "interrupted; the truth so far is kept");
      truth.samples = found.samples;
      if (turn < kTurns) continue;
      const engine::MemoryOutcome& used = found.outcome.memory;
      truth.resident = used.resident_bytes;
      truth.expected = used.peak_bytes + space.scenario.runtime_bytes();
      report.out_of_memory += found.outcome.status == OutcomeStatus::out_of_memory ? 1 : 0;
      report.failed += found.outcome.status != OutcomeStatus::ok ? 1 : 0;
    }
  }
  std::erase_if(report.truth, [](const Truth& truth) { return truth.samples.empty(); });
  for (Truth& truth : report.truth) truth.summary = summarize_samples(truth.samples);
  std::sort(report.truth.begin(), report.truth.end(),
            [](const Truth& a, const Truth& b) { return a.summary.median < b.summary.median; });
  return report;
}

// What all trials of the store took: starting included, which the samples do not show.
double cost_of(const Report& report) {
  constexpr double kStart = 0.15;
  double seconds = 0;
  for (const Truth& truth : report.truth)
    seconds += kTurns * (kStart + (kSamplesATurn + 1) * truth.summary.median);
  return seconds;
}

// Of plans whose intervals do not overlap; 1 of fewer than three.
std::pair<double, size_t> rank_correlation(const std::vector<Truth>& truth) {
  std::vector<double> predicted, measured;
  double high = 0;
  for (const Truth& one : truth) {
    if (one.summary.interval.low <= high) continue;
    high = one.summary.interval.high;
    predicted.push_back(one.predicted);
    measured.push_back(one.summary.median);
  }
  const size_t count = predicted.size();
  return {count < 3 ? 1 : spearman(predicted, measured), count};
}

double mean_error(const std::vector<Truth>& truth) {
  double sum = 0;
  for (const Truth& one : truth) sum += std::abs(one.predicted / one.summary.median - 1);
  return sum / static_cast<double>(truth.size());
}

// The median error of what the system held: the metered bytes and the runtime.
double memory_error(const std::vector<Truth>& truth) {
  std::vector<double> errors;
  for (const Truth& one : truth)
    if (one.resident > 0) errors.push_back(std::abs(one.expected / one.resident - 1));
  return errors.empty() ? 0 : median_of(std::move(errors));
}

const Truth* truth_of(const Report& report, const ParallelPlan& plan) {
  for (const Truth& one : report.truth)
    if (one.plan == plan) return &one;
  return nullptr;
}

struct Score {
  double regret = 0, beyond = 0, rho = 0, error = 0, memory = 0, speedup = 0;
};

Score score(const Space& space, const Report& report, const Recommendation& r) {
  Score result;
  const Truth& best = report.truth.front();
  const Truth* picked = truth_of(report, r.best->plan);
  engine::expect(picked != nullptr, "a recommended plan is one of the legal ones");
  result.regret = picked->summary.median / best.summary.median - 1;
  result.beyond = std::max(0.0, ratio_of_medians(picked->samples, best.samples).interval.low - 1);
  const auto [rho, separate] = rank_correlation(report.truth);
  result.rho = rho;
  result.error = mean_error(report.truth);
  result.memory = memory_error(report.truth);
  const Truth* plain = r.baseline ? truth_of(report, r.baseline->plan) : nullptr;
  if (plain) result.speedup = plain->summary.median / picked->summary.median;
  fmt::print("{}\n  {} legal plans, {} fit {} a rank, {} ran out of memory, {} failed\n",
             space.name, report.legal, report.fit,
             format_bytes(space.scenario.cluster.device.memory_bytes), report.out_of_memory,
             report.failed);
  fmt::print("  truth: {} to {} a step, about {} to measure\n", format_seconds(best.summary.median),
             format_seconds(report.truth.back().summary.median),
             format_seconds(report.cost_seconds));
  fmt::print(
      "  best   {} ({} to {})\n  picked {}: {}, regret {:.1f} %, beyond the spread {:.1f} %\n",
      engine::describe(best.plan), format_seconds(best.summary.interval.low),
      format_seconds(best.summary.interval.high), engine::describe(picked->plan),
      format_seconds(picked->summary.median), 100 * result.regret, 100 * result.beyond);
  fmt::print("  tuner: {} trials in {}, {:.1f} % of the cost\n", r.measurement->race.new_trials,
             format_seconds(r.measurement->race.spent_seconds),
             100 * r.measurement->race.spent_seconds / report.cost_seconds);
  fmt::print(
      "  prediction: rank correlation {:.2f} over {} separate plans, mean error {:.1f} %, "
      "resident memory {:.1f} %\n",
      result.rho, separate, 100 * result.error, 100 * result.memory);
  if (plain)
    fmt::print("  over full recomputation ({}): {:.2f} ×\n", engine::describe(plain->plan),
               result.speedup);
  std::fflush(stdout);
  return result;
}

void print_plans(const Report& report) {
  for (const Truth& one : report.truth)
    fmt::print("  {:>10} measured {:>10} predicted {:>+6.1f} %  {}\n",
               format_seconds(one.summary.median), format_seconds(one.predicted),
               100 * (one.predicted / one.summary.median - 1), engine::describe(one.plan));
}

void print_goals(const std::vector<Score>& scores, int64_t out_of_memory) {
  double mean = 0, worst = 0, rho = 1, speedup = 1e9, error = 0, memory = 0;
  for (const Score& one : scores) {
    mean += one.beyond / static_cast<double>(scores.size());
    error += one.error / static_cast<double>(scores.size());
    worst = std::max(worst, one.beyond);
    rho = std::min(rho, one.rho);
    memory = std::max(memory, one.memory);
    if (one.speedup > 0) speedup = std::min(speedup, one.speedup);
  }
  print_goal("mean regret beyond the spread at most 2 %", mean <= 0.02);
  print_goal("worst regret beyond the spread at most 5 %", worst <= 0.05);
  print_goal("rank correlation at least 0.8 in every space", rho >= 0.8);
  print_goal("mean error of step times at most 15 %", error <= 0.15);
  print_goal("resident memory within 5 % of the metered bytes and the runtime", memory <= 0.05);
  print_goal("no plan that was to fit ran out of memory", out_of_memory == 0);
  print_goal("at least 1.2 × over full recomputation in every space", speedup >= 1.2);
}

int run(const std::string& folder, const std::string& only, bool plans) {
  std::filesystem::create_directories(folder);
  setenv("XDG_STATE_HOME", (folder + "/state").c_str(), 0);
  const Launcher launcher = Launcher::find(LauncherKind::local);
  const Host host = this_host();
  const StopSignals signals;
  std::vector<Score> scores;
  int64_t out_of_memory = 0;
  for (const engine::ModelSpec& model : benchmarks::small_models())
    for (const int ranks : {2, 4}) {
      const HostCluster here = host_cluster(host, ranks, environment_of(host, launcher).hash);
      if (scores.empty() && !here.remark.empty()) std::cerr << here.remark << '\n';
      Space space = space_of(model, ranks, here.cluster);
      if (space.name.find(only) == std::string::npos) continue;
      bind_memory(space.scenario);
      Store store(folder + "/truth.db");
      Profiler truth(store, 0, launcher, host);
      Report report = find_truth(space, truth, signals);
      report.cost_seconds = cost_of(report);
      const std::string fresh = fmt::format("{}/tuner-{}.db", folder, getpid());
      Recommendation r;
      {
        Store own(fresh);
        Profiler tuner(own, 0, launcher, host);
        const MeasureOptions options = {.most_plans = 1000,
                                        .budget_seconds = kTunerShare * report.cost_seconds,
                                        .stop = &signals.seen()};
        r = recommend(space.scenario, {}, [&](auto& answers, auto& baseline) {
          return measure_plans(space.scenario, tuner, options, answers, baseline);
        });
      }
      for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(fresh + end);
      scores.push_back(score(space, report, r));
      if (plans) print_plans(report);
      out_of_memory += report.out_of_memory;
    }
  print_goals(scores, out_of_memory);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return benchmarks::run_regret(
      count, arguments,
      "Measures every legal plan of four small spaces, three times in turns, and what the tuner\n"
      "picks for a tenth of that cost.\n",
      run);
}
