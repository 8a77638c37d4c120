// Chooses which predicted serving plans to measure, and measures them.
#include "tuner/search/serve_measure.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tuner/profile/statistics.h"

namespace tuner {
namespace {

// A plan that takes longer than another must promise this much more to be worth a trial.
constexpr double kWorthwhile = 1.02;
// Of the errors of two plans. Assumed: it is not fitted to serving, as residual_correlation is to
// training.
constexpr double kCorrelation = 0.5;
constexpr size_t kSeeds = 4;  // degrees that are tried in any case

// What complete trials of a plan told, its latency the median of the first samples.
engine::Outcome outcome_of(const Racer& racer, int64_t samples) {
  engine::Outcome outcome = racer.measurement.outcome;
  const double median = racer.median(samples);
  engine::ServingOutcome& serving = outcome.serving.value();
  const engine::ServingSpec& spec = *racer.job.serving;
  outcome.step_seconds = median;
  if (spec.arrival == Arrival::static_batch)
    serving.tokens_per_second =
        static_cast<double>(spec.batch * spec.output * racer.job.plan.dp) / median;
  return outcome;
}

// The candidates that are worth a trial, the best first. Of the same degrees none that takes
// longer than another without a better promise.
std::vector<ServeCandidate*> worthwhile(const ServeBudgets& budgets,
                                        std::vector<ServeCandidate>& candidates) {
  std::vector<ServeCandidate*> order;
  for (ServeCandidate& candidate : candidates)
    // The engine keeps keys and values in the type of the weights.
    if (candidate.plan.kv == candidate.plan.weights) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->predicted.latency_seconds < b->predicted.latency_seconds;
  });
  using Kind = std::tuple<int, int, int, int, ServeFormat>;
  std::map<Kind, Standing> known;
  std::erase_if(order, [&](const ServeCandidate* candidate) {
    const ServePlan& plan = candidate->plan;
    const Standing standing = standing_of(budgets, *candidate);
    const auto [place, is_new] =
        known.emplace(Kind{plan.tp, plan.ep, plan.pp, plan.replicas, plan.weights}, standing);
    if (is_new) return false;
    Standing& last = place->second;
    const bool promises =
        standing.value * kWorthwhile < last.value || standing.excess * kWorthwhile < last.excess;
    if (promises) last = standing;
    return !promises;
  });
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return is_better(budgets, *a, *b); });
  return order;
}

class ServeMeasuring {
 public:
  ServeMeasuring(const ServeScenario& scenario, const ServeBudgets& budgets,
                 std::vector<ServeCandidate>& candidates)
      : workload_(scenario.workload),
        budgets_(budgets),
        candidates_(worthwhile(budgets, candidates)) {
    for (const ServeCandidate* candidate : candidates_) {
      Racer& racer = racers_.emplace_back();
      racer.name = describe(candidate->plan);
      racer.job = serving_job_of(scenario, candidate->plan);
      racer.features = features_of(candidate->plan);
      racer.seconds = candidate->predicted.latency_seconds;
      racer.predicted = standing_of(budgets, *candidate);
    }
    if (!candidates_.empty())
      sigma_ = log_sigma_of(candidates_.front()->predicted.latency_interval);
    seed_degrees();
  }

  PlannedServeTrials planned(int64_t most_plans) const {
    PlannedServeTrials trials;
    for (size_t i = 0; i < racers_.size(); ++i)
      if (racers_[i].is_seeded && std::ssize(trials.certain) < most_plans)
        trials.certain.push_back(*candidates_[i]);
    trials.others = std::ssize(racers_) - std::ssize(trials.certain);
    trials.most_others = std::min(trials.others, most_plans - std::ssize(trials.certain));
    return trials;
  }

  ServeMeasureAccount run(Profiler& profiler, const MeasureOptions& options) {
    ServeMeasureAccount account;
    if (racers_.empty()) return account;
    Race race(
        racers_, sigma_, kCorrelation,
        [&](size_t place, int64_t samples) { return standing_after(place, samples); }, profiler,
        options);
    account.race = race.run();
    std::vector<double> factors;
    for (const size_t place : account.race.order) {
      const Racer& racer = racers_[place];
      ServeCandidate& candidate = *candidates_[place];
      if (racer.failed()) candidate.measured = racer.measurement.outcome;
      account.lost += is_lost(racer.measurement.outcome);
      // A trial cut off before its figures are there says nothing.
      if (!racer.timed() || !racer.measurement.outcome.serving) continue;
      take_outcome(candidate, outcome_of(racer, kAllSamples));
      factors.push_back(racer.median() / racer.seconds);
    }
    if (!factors.empty()) account.correction = median_of(std::move(factors));
    return account;
  }

 private:
  // The best of every degrees is tried: predictions err by degrees more than by batches.
  void seed_degrees() {
    std::set<std::tuple<int, int, int, int>> seen;
    for (size_t i = 0; i < racers_.size(); ++i) {
      const ServePlan& plan = candidates_[i]->plan;
      racers_[i].is_seeded =
          seen.emplace(plan.tp, plan.ep, plan.pp, plan.replicas).second && seen.size() <= kSeeds;
    }
  }

  Standing standing_after(size_t place, int64_t samples) const {
    const Racer& racer = racers_[place];
    if (!racer.measurement.outcome.serving)
      return racer.predicted.times(racer.median(samples) / racer.seconds);
    ServeCandidate candidate = *candidates_[place];
    take_outcome(candidate, outcome_of(racer, samples));
    return standing_of(budgets_, candidate);
  }

  void take_outcome(ServeCandidate& candidate, engine::Outcome outcome) const {
    candidate.excess = excess_over(budgets_, outcome);
    candidate.kept_up = keeps_up(workload_, candidate.plan, outcome);
    candidate.measured = std::move(outcome);
  }

  const ServeWorkload& workload_;
  const ServeBudgets& budgets_;
  std::vector<ServeCandidate*> candidates_;  // of the racers
  std::vector<Racer> racers_;
  double sigma_ = 0;  // of the logarithm of a predicted latency
};

}  // namespace

engine::Job serving_job_of(const ServeScenario& scenario, const ServePlan& plan) {
  const ServeWorkload& work = scenario.workload;
  engine::Job job;
  job.model = scenario.model;
  job.plan.tp = plan.tp;
  job.plan.ep = plan.ep;
  job.plan.pp = plan.pp;
  job.plan.dp = plan.replicas;
  if (scenario.model.layers % plan.pp != 0)
    job.plan.layers_per_stage = stage_layers(scenario.model.layers, plan.pp);
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

PlannedServeTrials planned_trials(const ServeScenario& scenario, const ServeBudgets& budgets,
                                  int64_t most_plans, std::vector<ServeCandidate>& candidates) {
  return ServeMeasuring(scenario, budgets, candidates).planned(most_plans);
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
  return ServeMeasuring(scenario, budgets, candidates).run(profiler, options);
}

}  // namespace tuner
