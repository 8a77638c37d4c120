// Regret of serving: how good the tuner's pick is where the truth is known, because every legal
// plan was measured. Truth is kept in a folder, so that an interrupted run goes on and a second one
// is quick.
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>

#include "benchmarks/regret.h"
#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/profile/profiler.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/serve_measure.h"
#include "tuner/validate/statistics.h"

namespace {

using namespace tuner;
using benchmarks::print_goal;
using engine::format_seconds;

constexpr int kTurns = 3;
constexpr int64_t kSamplesATurn = 3;
constexpr int kRanks = 2;
constexpr double kTunerShare = 0.25;  // of the cost of the truth
constexpr size_t kRivals = 2;         // of a pick
constexpr int kRounds = 5;
constexpr int64_t kSamplesARound = 2;

const ServeRestrictions kSpace = {.tp = {},
                                  .ep = {},
                                  .pp = {},
                                  .replicas = {1, 2},
                                  .batch = {1, 2, 4, 8, 16},
                                  .weights = {},
                                  .kv = {}};
struct Shape {
  int64_t input, output;
};
constexpr Shape kShapes[] = {{16, 32}, {64, 16}};

struct Truth {
  ServePlan plan;
  ServePrediction predicted;
  std::vector<double> samples;     // latencies
  std::vector<double> ttft, tpot;  // of every turn
  double latency = 0;              // the fastest
  double typical = 0;              // the median

  static double fastest(const std::vector<double>& seconds) {
    return *std::min_element(seconds.begin(), seconds.end());
  }
  // Of all replicas, a token.
  double seconds_per_token(int64_t output) const {
    return typical / static_cast<double>(plan.batch * plan.replicas * output);
  }
};

struct Space {
  std::string name;
  ServeScenario scenario;
  std::vector<Truth> truth;  // fastest first
  double cost_seconds = 0;
};

Space space_of(const engine::ModelSpec& model, Shape shape, const ClusterSpec& cluster) {
  Space space;
  space.name = fmt::format("{}, {} in, {} out", model.name, shape.input, shape.output);
  ServeScenario& s = space.scenario;
  s.model = model;
  s.cluster = cluster;
  s.stack = find_serve_stack("autotune");
  s.workload.input = shape.input;
  s.workload.output = shape.output;
  use_rates(s, ServeRatesTable::load());
  for (const ServeCandidate& candidate : search_serving(s, kSpace, {}).all)
    space.truth.push_back({candidate.plan, candidate.predicted, {}, {}, {}});
  return space;
}

// Every plan, in turns; of each the fastest, since what other programs take of the machine only
// adds to it. Throws Error when asked to stop or a trial fails.
void find_truth(Space& space, Profiler& profiler, const StopSignals& signals) {
  TrialLimits limits;
  limits.stop = &signals.seen();
  for (int turn = 1; turn <= kTurns; ++turn)
    for (Truth& truth : space.truth) {
      const Measurement found = profiler.measure(serving_job_of(space.scenario, truth.plan),
                                                 turn * kSamplesATurn, limits);
      if (signals.seen() != 0)
        throw engine::Error(engine::ExitCode::interrupted, "interrupted; the truth so far is kept");
      if (found.outcome.status != engine::OutcomeStatus::ok)
        throw engine::Error(engine::ExitCode::partial, found.outcome.reason);
      truth.samples = found.samples;
      truth.ttft.push_back(found.outcome.serving->ttft_seconds.p50);
      truth.tpot.push_back(found.outcome.serving->tpot_seconds.p50);
    }
  constexpr double kStart = 0.1;
  for (Truth& truth : space.truth) {
    truth.latency = truth.fastest(truth.samples);
    truth.typical = median_of(truth.samples);
    space.cost_seconds += kTurns * (kStart + (kSamplesATurn + 1) * truth.latency);
  }
  std::sort(space.truth.begin(), space.truth.end(),
            [](const Truth& a, const Truth& b) { return a.latency < b.latency; });
}

// Between the two neighbours of the middle half that lie furthest apart: no noise decides who is
// within.
double limit_between(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double limit = values.back(), widest = 0;
  for (size_t i = values.size() / 4; i + 1 < 3 * values.size() / 4 + 1; ++i)
    if (values[i + 1] / values[i] > widest) {
      widest = values[i + 1] / values[i];
      limit = std::sqrt(values[i] * values[i + 1]);
    }
  return limit;
}

struct Question {
  std::string name;
  ServeBudgets budgets;
};

std::vector<Question> questions_of(const Space& space) {
  const int64_t output = space.scenario.workload.output;
  std::vector<double> latencies, rates;
  for (const Truth& one : space.truth) {
    latencies.push_back(one.typical);
    rates.push_back(1 / one.seconds_per_token(output));
  }
  Question fast{"", {}}, wide{"", {}};
  wide.budgets.latency_seconds = limit_between(latencies);
  wide.name =
      fmt::format("highest throughput within {}", format_seconds(*wide.budgets.latency_seconds));
  fast.budgets.tokens_per_second = limit_between(rates);
  fast.name = fmt::format("lowest latency above {:.0f} tokens/s", *fast.budgets.tokens_per_second);
  return {wide, fast};
}

struct Score {
  double regret = 0, beyond = 0, missed = 0, share = 0;
};

// A plan again, in alternation with its rivals.
struct Rival {
  const Truth* truth = nullptr;
  std::vector<double> latencies;

  // With such a latency.
  ServeCandidate candidate(const ServeBudgets& budgets, int64_t output, double latency) const {
    ServeCandidate one{truth->plan, truth->predicted};
    engine::Outcome& outcome = one.measured.emplace();
    outcome.step_seconds = latency;
    engine::ServingOutcome& serving = outcome.serving.emplace();
    serving.latency_seconds = {latency, latency, latency, latency};
    serving.tokens_per_second =
        static_cast<double>(truth->plan.batch * truth->plan.replicas * output) / latency;
    one.excess = excess_over(budgets, outcome);
    return one;
  }
  double excess(const ServeBudgets& budgets, int64_t output, double latency) const {
    return candidate(budgets, output, latency).excess;
  }
  // What the question wants least of.
  std::vector<double> values(const ServeBudgets& budgets, int64_t output) const {
    std::vector<double> list = latencies;
    for (double& value : list)
      value = standing_of(budgets, candidate(budgets, output, value)).value;
    return list;
  }
};

// The pick and the plans that the truth has before it, side by side: a busy moment meets them all.
std::vector<Rival> duel(const Space& space, const ServeBudgets& budgets, const ServePlan& pick,
                        Profiler& profiler, const StopSignals& signals) {
  const int64_t output = space.scenario.workload.output;
  std::vector<Rival> order;
  for (const Truth& one : space.truth) order.push_back({&one, {}});
  const auto typical = [&](const Rival& rival) {
    return rival.candidate(budgets, output, rival.truth->typical);
  };
  std::stable_sort(order.begin(), order.end(), [&](const Rival& a, const Rival& b) {
    return is_better(budgets, typical(a), typical(b));
  });
  const auto is_picked = [&](const Rival& rival) { return rival.truth->plan == pick; };
  std::vector<Rival> rivals = {*std::find_if(order.begin(), order.end(), is_picked)};
  for (const Rival& one : order)
    if (rivals.size() <= kRivals && !is_picked(one)) rivals.push_back(one);
  TrialLimits limits;
  limits.stop = &signals.seen();
  for (int round = 1; round <= kRounds; ++round)
    for (Rival& rival : rivals)
      rival.latencies = profiler
                            .measure(serving_job_of(space.scenario, rival.truth->plan),
                                     round * kSamplesARound, limits)
                            .samples;
  if (signals.seen() != 0)
    throw engine::Error(engine::ExitCode::interrupted, "interrupted; the truth so far is kept");
  return rivals;
}

Score score_of(const Space& space, const Question& question, const ServeRecommendation& r,
               const std::vector<Rival>& rivals) {
  const ServeBudgets& budgets = question.budgets;
  const int64_t output = space.scenario.workload.output;
  const Rival& picked = rivals.front();
  const Rival* best = &picked;
  const auto median = [&](const Rival& one) { return median_of(one.values(budgets, output)); };
  for (const Rival& one : rivals)
    if (one.excess(budgets, output, median_of(one.latencies)) <= 1 && median(one) < median(*best))
      best = &one;
  Score score;
  score.regret = median(picked) / median(*best) - 1;
  score.beyond = std::max(
      0.0,
      ratio_of_medians(picked.values(budgets, output), best->values(budgets, output)).interval.low -
          1);
  const SampleSummary summary = summarize_samples(picked.latencies);
  score.missed = std::max(0.0, picked.excess(budgets, output, summary.interval.low) - 1);
  score.share = r.measurement->race.spent_seconds / space.cost_seconds;
  fmt::print(
      "  {}\n    best   {}\n    picked {}: regret {:.1f} %, beyond the spread {:.1f} %, "
      "budget {}\n    tuner: {} plans in {} trials and {}, {:.0f} % of the cost\n",
      question.name, describe(best->truth->plan), describe(picked.truth->plan), 100 * score.regret,
      100 * score.beyond,
      score.missed > 0 ? fmt::format("missed by {:.1f} %", 100 * score.missed) : "met",
      r.measurement->race.order.size(), r.measurement->race.new_trials,
      format_seconds(r.measurement->race.spent_seconds), 100 * score.share);
  std::fflush(stdout);
  return score;
}

struct Errors {
  double latency = 0, ttft = 0, tpot = 0, rho = 0;
};

Errors compare(const Space& space) {
  Errors errors;
  std::vector<double> predicted, measured;
  for (const Truth& one : space.truth) {
    const auto each = static_cast<double>(space.truth.size());
    const ServePrediction& p = one.predicted;
    errors.latency += std::abs(p.latency_seconds / one.latency - 1) / each;
    errors.ttft += std::abs(p.ttft_seconds / one.fastest(one.ttft) - 1) / each;
    errors.tpot += std::abs(p.tpot_seconds / one.fastest(one.tpot) - 1) / each;
    predicted.push_back(p.latency_seconds);
    measured.push_back(one.latency);
  }
  errors.rho = spearman(predicted, measured);
  fmt::print("{}\n  {} plans, {} to {}, about {} to measure\n", space.name, space.truth.size(),
             format_seconds(measured.front()), format_seconds(measured.back()),
             format_seconds(space.cost_seconds));
  fmt::print(
      "  prediction: rank correlation {:.2f}, mean error of latency {:.1f} %, TTFT {:.1f} %, "
      "TPOT {:.1f} %\n",
      errors.rho, 100 * errors.latency, 100 * errors.ttft, 100 * errors.tpot);
  return errors;
}

void print_plans(const Space& space) {
  fmt::print("  {:>9} {:>7}  {:>9} {:>7}  {:>9} {:>7}\n", "LATENCY", "ERROR", "TTFT", "ERROR",
             "TPOT", "ERROR");
  for (const Truth& one : space.truth) {
    const double ttft = one.fastest(one.ttft), tpot = one.fastest(one.tpot);
    fmt::print("  {:>9} {:>+5.0f} %  {:>9} {:>+5.0f} %  {:>9} {:>+5.0f} %  {}\n",
               format_seconds(one.latency), 100 * (one.predicted.latency_seconds / one.latency - 1),
               format_seconds(ttft), 100 * (one.predicted.ttft_seconds / ttft - 1),
               format_seconds(tpot), 100 * (one.predicted.tpot_seconds / tpot - 1),
               describe(one.plan));
  }
}

void print_goals(const std::vector<Score>& scores, const std::vector<Errors>& errors) {
  double worst = 0, missed = 0, rho = 1, ttft = 0, tpot = 0;
  for (const Score& one : scores) {
    worst = std::max(worst, one.beyond);
    missed = std::max(missed, one.missed);
  }
  for (const Errors& one : errors) {
    rho = std::min(rho, one.rho);
    ttft += one.ttft / static_cast<double>(errors.size());
    tpot += one.tpot / static_cast<double>(errors.size());
  }
  fmt::print("mean error of TTFT {:.1f} %, of TPOT {:.1f} %\n", 100 * ttft, 100 * tpot);
  print_goal("worst regret beyond the spread at most 5 %", worst <= 0.05);
  print_goal("no pick misses its budget by more than 5 % beyond the spread", missed <= 0.05);
  print_goal("rank correlation at least 0.8 in every space", rho >= 0.8);
}

// What the tuner finds with a store of its own, and the duel that judges it.
Score ask(const Space& space, const Question& question, const std::string& store,
          const Launcher& launcher, const Host& host, const StopSignals& signals) {
  Score score;
  {
    Store own(store + "-tuner.db"), judge(store + "-judge.db");
    Profiler tuner(own, 0, launcher, host), judging(judge, 0, launcher, host);
    const MeasureOptions options = {.budget_seconds = kTunerShare * space.cost_seconds,
                                    .stop = &signals.seen()};
    const ServeRecommendation r =
        recommend_serving(space.scenario, kSpace, question.budgets, 0, [&](auto& candidates) {
          return measure_serving(space.scenario, question.budgets, tuner, options, candidates);
        });
    score =
        score_of(space, question, r, duel(space, question.budgets, r.best->plan, judging, signals));
  }
  for (const char* name : {"-tuner.db", "-judge.db"})
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(store + name + end);
  return score;
}

int run(const std::string& folder, const std::string& only, bool plans) {
  std::filesystem::create_directories(folder);
  setenv("XDG_STATE_HOME", (folder + "/state").c_str(), 0);
  const Launcher launcher = Launcher::find(LauncherKind::local);
  const Host host = this_host();
  const StopSignals signals;
  const HostCluster here = host_cluster(host, kRanks, environment_of(host, launcher).hash);
  if (!here.remark.empty()) std::cerr << here.remark << '\n';
  std::vector<Score> scores;
  std::vector<Errors> errors;
  for (const engine::ModelSpec& model : benchmarks::small_models())
    for (const Shape shape : kShapes) {
      Space space = space_of(model, shape, here.cluster);
      if (space.name.find(only) == std::string::npos) continue;
      Store store(folder + "/truth.db");
      Profiler truth(store, 0, launcher, host);
      find_truth(space, truth, signals);
      errors.push_back(compare(space));
      if (plans) print_plans(space);
      for (const Question& question : questions_of(space))
        scores.push_back(
            ask(space, question, fmt::format("{}/{}", folder, getpid()), launcher, host, signals));
    }
  print_goals(scores, errors);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  return benchmarks::run_regret(
      count, arguments,
      "Measures every legal serving plan of four small spaces, three times in turns, and what the\n"
      "tuner picks within a budget and above a floor.\n",
      run);
}
