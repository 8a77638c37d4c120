// Which plans to measure, for how long, and what follows from it.
#include "tuner/search/measure.h"

#include <algorithm>
#include <cmath>

#include "tuner/model/cost_model.h"
#include "tuner/profile/statistics.h"

namespace tuner {

using engine::Outcome;
using engine::ParallelPlan;

namespace {

class Measuring {
 public:
  Measuring(const Scenario& scenario, Profiler& profiler, const MeasureOptions& options,
            std::vector<PlanAnswer>& plans, std::optional<PlanAnswer>& baseline)
      : scenario_(scenario), profiler_(profiler), options_(options) {
    account_.environment = profiler.environment();
    account_.budget_seconds = options.budget_seconds;
    for (PlanAnswer& answer : plans) enter(answer);
    if (!baseline || !baseline->predicted.fits) return;
    const auto same = std::find_if(answers_.begin(), answers_.end(), [&](const PlanAnswer* one) {
      return one->plan == baseline->plan;
    });
    const auto place = same - answers_.begin();
    if (same == answers_.end()) enter(*baseline);
    racers_[static_cast<size_t>(place)].is_seeded = true;
  }

  MeasureAccount run() {
    if (racers_.empty()) return std::move(account_);
    Race race(
        racers_, scenario_.rates.residual_sigma, scenario_.rates.residual_correlation,
        [&](size_t place, int64_t samples) {
          return Standing{.value = racers_[place].median(samples)};
        },
        profiler_, options_);
    account_.race = race.run();
    for (const size_t place : account_.race.order) report(place);
    if (race.best()) correct(race.residuals());
    return std::move(account_);
  }

 private:
  void enter(PlanAnswer& answer) {
    answers_.push_back(&answer);
    Racer& racer = racers_.emplace_back();
    racer.name = engine::describe(answer.plan);
    racer.job = job_of(scenario_, answer.plan);
    racer.features = features_of(answer.plan);
    racer.seconds = answer.predicted.step_seconds;
    racer.predicted = {.value = racer.seconds};
  }

  void report(size_t place) {
    const Racer& racer = racers_[place];
    PlanAnswer& answer = *answers_[place];
    Outcome outcome = racer.measurement.outcome;
    const double peak = scenario_.cluster.device.peak(scenario_.workload.precision);
    outcome.mfu = peak > 0 ? outcome.tflops_per_gpu * 1e12 / peak : 0;
    account_.plans.push_back({answer.plan, racer.seconds, answer.predicted.memory.peak_bytes,
                              outcome, racer.measurement.trials,
                              racer.measurement.new_trials == 0});
    answer.measured = std::move(outcome);
  }

  // Predictions of what was not measured, by what was.
  void correct(const ResidualModel& model) {
    std::vector<double> factors;
    for (size_t i = 0; i < racers_.size(); ++i) {
      if (racers_[i].tried) continue;
      const auto [log_factor, sigma] = model.correction(racers_[i].features);
      const double factor = std::exp(log_factor);
      Outcome& predicted = answers_[i]->predicted;
      predicted.step_seconds *= factor;
      predicted.interval_seconds = interval_of(predicted.step_seconds, sigma);
      for (auto& [name, seconds] : predicted.breakdown_seconds) seconds *= factor;
      predicted.tokens_per_second_per_gpu /= factor;
      predicted.tflops_per_gpu /= factor;
      predicted.mfu /= factor;
      factors.push_back(factor);
    }
    if (!factors.empty()) account_.correction = median_of(std::move(factors));
  }

  const Scenario& scenario_;
  Profiler& profiler_;
  const MeasureOptions& options_;
  std::vector<Racer> racers_;
  std::vector<PlanAnswer*> answers_;  // of the racers
  MeasureAccount account_;
};

}  // namespace

engine::Job job_of(const Scenario& scenario, const ParallelPlan& plan) {
  engine::Job job;
  job.model = scenario.model;
  job.plan = plan;
  job.workload = scenario.workload;
  job.workload.tokens = 1;  // of the whole training: nothing that a trial depends on
  job.warmup_steps = 1;
  job.memory_limit_bytes =
      std::max(1.0, scenario.cluster.device.memory_bytes - scenario.runtime_bytes());
  return job;
}

double trial_seconds(double step_seconds) {
  constexpr double kStart = 0.5;
  return kStart + static_cast<double>(kFirstSamples + 1) * step_seconds;
}

MeasureAccount measure_plans(const Scenario& scenario, Profiler& profiler,
                             const MeasureOptions& options, std::vector<PlanAnswer>& plans,
                             std::optional<PlanAnswer>& baseline) {
  MeasureAccount account = Measuring(scenario, profiler, options, plans, baseline).run();
  if (baseline)
    for (const PlanAnswer& answer : plans)
      if (answer.plan == baseline->plan) baseline = answer;
  std::stable_sort(plans.begin(), plans.end(), [](const PlanAnswer& a, const PlanAnswer& b) {
    return a.failed() != b.failed() ? b.failed() : a.step_seconds() < b.step_seconds();
  });
  // What was proved is recommended; a prediction that is faster yet is the first runner-up.
  const auto proved = std::find_if(plans.begin(), plans.end(),
                                   [](const PlanAnswer& plan) { return plan.is_timed(); });
  if (proved != plans.end()) std::rotate(plans.begin(), proved, std::next(proved));
  return account;
}

}  // namespace tuner
