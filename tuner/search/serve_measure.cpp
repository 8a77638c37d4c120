// Chooses which predicted serving plans to measure, and measures them.
#include "tuner/search/serve_measure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "tuner/profile/statistics.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;

constexpr int64_t kSamples = 5;  // timed steps of a plan
// What is left must promise this much more to be worth a trial.
constexpr double kWorthwhile = 1.02;

// Layers of each stage, where they are not equal: the first ones have one more.
std::vector<int> stage_layers(const engine::ModelSpec& model, int pp) {
  if (model.layers % pp == 0) return {};
  std::vector<int> layers(static_cast<size_t>(pp), static_cast<int>(model.layers / pp));
  for (int64_t i = 0; i < model.layers % pp; ++i) ++layers[static_cast<size_t>(i)];
  return layers;
}

class ServeMeasuring {
 public:
  ServeMeasuring(const ServeScenario& scenario, const ServeBudgets& budgets, Profiler& profiler,
                 const MeasureOptions& options, std::vector<ServeCandidate>& candidates)
      : scenario_(scenario),
        budgets_(budgets),
        profiler_(profiler),
        options_(options),
        candidates_(candidates) {}

  ServeMeasureAccount run() {
    while (account_.plans < options_.most_plans && !is_stopped()) {
      ServeCandidate* next = best_guess();
      if (next == nullptr || !is_promising(*next)) break;
      tell(next->plan);
      measure(*next);
    }
    std::vector<double> factors;
    for (const auto& [plan, factor] : factors_) factors.push_back(factor);
    if (!factors.empty()) account_.correction = median_of(std::move(factors));
    return account_;
  }

 private:
  using Degrees = std::tuple<int, int, int>;
  static Degrees degrees_of(const ServePlan& plan) { return {plan.tp, plan.pp, plan.replicas}; }

  bool is_stopped() {
    if (account_.spent_seconds >= options_.budget_seconds) account_.budget_ended = true;
    return account_.budget_ended || (options_.stop != nullptr && *options_.stop != 0);
  }

  // Measured over predicted latency: the nearest batch of the same degrees, else the median.
  double factor_of(const ServePlan& plan) const {
    double nearest = 0, distance = 1e300;
    std::vector<double> all;
    for (const auto& [other, factor] : factors_) {
      all.push_back(factor);
      const double far = std::abs(std::log(static_cast<double>(other.batch)) -
                                  std::log(static_cast<double>(plan.batch)));
      if (degrees_of(other) != degrees_of(plan) || far >= distance) continue;
      distance = far;
      nearest = factor;
    }
    if (nearest > 0) return nearest;
    return all.empty() ? 1 : median_of(std::move(all));
  }

  // As it would be with the errors of what was measured.
  ServeCandidate guess(const ServeCandidate& candidate) const {
    ServeCandidate guessed = candidate;
    ServePrediction& p = guessed.predicted;
    const double factor = factor_of(candidate.plan);
    for (double* seconds : {&p.latency_seconds, &p.ttft_seconds, &p.tpot_seconds})
      *seconds *= factor;
    for (auto* percentiles : {&p.latency, &p.ttft, &p.tpot})
      if (*percentiles)
        for (double* seconds : {&(*percentiles)->p50, &(*percentiles)->p90, &(*percentiles)->p99})
          *seconds *= factor;
    p.tokens_per_second /= factor;
    guessed.excess = excess_over(budgets_, p);
    return guessed;
  }

  // The best answer, or one that is hardly worse and sooner measured.
  ServeCandidate* best_guess() {
    std::vector<std::pair<ServeCandidate*, ServeCandidate>> guesses;
    for (ServeCandidate& candidate : candidates_) {
      // The engine keeps keys and values in the type of the weights.
      if (candidate.measured || candidate.plan.kv != candidate.plan.weights) continue;
      guesses.emplace_back(&candidate, guess(candidate));
    }
    if (guesses.empty()) return nullptr;
    auto best = std::min_element(guesses.begin(), guesses.end(), [&](const auto& a, const auto& b) {
      return is_better(budgets_, a.second, b.second);
    });
    if (!best->second.meets()) return best->first;
    const double enough = best->second.tokens_per_second() / kWorthwhile;
    for (auto other = guesses.begin(); other != guesses.end(); ++other)
      if (other->second.meets() && other->second.tokens_per_second() >= enough &&
          other->second.latency_seconds() < best->second.latency_seconds())
        best = other;
    return best->first;
  }

  // Whether it might beat the best that was measured.
  bool is_promising(const ServeCandidate& candidate) const {
    const ServeCandidate guessed = guess(candidate);
    const ServeCandidate* best = nullptr;
    for (const ServeCandidate& one : candidates_)
      if (one.is_timed() && (best == nullptr || is_better(budgets_, one, *best))) best = &one;
    if (best == nullptr) return true;
    if (!best->meets()) return guessed.excess * kWorthwhile < best->excess || guessed.meets();
    if (!guessed.meets()) return false;
    return budgets_.tokens_per_second
               ? guessed.latency_seconds() * kWorthwhile < best->latency_seconds()
               : guessed.tokens_per_second() > kWorthwhile * best->tokens_per_second();
  }

  void measure(ServeCandidate& candidate) {
    TrialLimits limits;
    limits.stop = options_.stop;
    limits.budget_seconds = std::max(1.0, options_.budget_seconds - account_.spent_seconds);
    limits.deadline_seconds = std::max(60.0, 60 * candidate.predicted.latency_seconds);
    Measurement found =
        profiler_.measure(serving_job_of(scenario_, candidate.plan), kSamples, limits);
    account_.new_trials += found.new_trials;
    account_.spent_seconds += found.spent_seconds;
    // A trial cut off before its figures are there says nothing.
    if (found.outcome.status == OutcomeStatus::interrupted) {
      if (options_.stop == nullptr || *options_.stop == 0) account_.budget_ended = true;
      return;
    }
    ++account_.plans;
    candidate.measured = std::move(found.outcome);
    if (!candidate.is_timed()) return;
    candidate.excess = excess_over(budgets_, *candidate.measured);
    factors_.emplace_back(candidate.plan,
                          candidate.latency_seconds() / candidate.predicted.latency_seconds);
  }

  void tell(const ServePlan& plan) const {
    if (!options_.progress) return;
    MeasureProgress progress;
    progress.done = account_.plans;
    progress.total = static_cast<int>(options_.most_plans);
    progress.spent_seconds = account_.spent_seconds;
    progress.budget_seconds = options_.budget_seconds;
    progress.now = describe(plan);
    options_.progress(progress);
  }

  const ServeScenario& scenario_;
  const ServeBudgets& budgets_;
  Profiler& profiler_;
  const MeasureOptions& options_;
  std::vector<ServeCandidate>& candidates_;
  std::vector<std::pair<ServePlan, double>> factors_;
  ServeMeasureAccount account_;
};

}  // namespace

engine::Job serving_job_of(const ServeScenario& scenario, const ServePlan& plan) {
  const ServeWorkload& work = scenario.workload;
  engine::Job job;
  job.model = scenario.model;
  job.plan.tp = plan.tp;
  job.plan.pp = plan.pp;
  job.plan.dp = plan.replicas;
  job.plan.layers_per_stage = stage_layers(scenario.model, plan.pp);
  job.workload.seq = work.input + work.output;
  job.workload.gbs = 1;
  job.workload.precision =
      plan.weights == ServeFormat::bf16 ? engine::Precision::bf16 : engine::Precision::f32;
  job.warmup_steps = 1;
  job.memory_limit_bytes =
      std::max(1.0, scenario.cluster.device.memory_bytes - scenario.stack.base_bytes);
  engine::ServingSpec& serving = job.serving.emplace();
  serving.batch = plan.batch;
  serving.page_tokens = scenario.stack.page_tokens;
  serving.kv_tokens = plan.batch *
                      ((job.workload.seq + serving.page_tokens - 1) / serving.page_tokens) *
                      serving.page_tokens;
  serving.input = work.input;
  serving.output = work.output;
  serving.arrival = work.arrival == Arrival::isolated ? Arrival::static_batch : work.arrival;
  serving.concurrency = work.concurrency;
  serving.requests_per_second = work.requests_per_second;
  return job;
}

std::vector<ServeCandidate> proved_first(const ServeBudgets& budgets,
                                         const std::vector<ServeCandidate>& all) {
  std::vector<ServeCandidate> ranked;
  for (const ServeCandidate& candidate : all)
    if (candidate.is_timed()) ranked.push_back(candidate);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const auto& a, const auto& b) { return is_better(budgets, a, b); });
  return ranked;
}

ServeMeasureAccount measure_serving(const ServeScenario& scenario, const ServeBudgets& budgets,
                                    Profiler& profiler, const MeasureOptions& options,
                                    std::vector<ServeCandidate>& candidates) {
  return ServeMeasuring(scenario, budgets, profiler, options, candidates).run();
}

}  // namespace tuner
