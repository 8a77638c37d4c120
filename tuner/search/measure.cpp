// Which plans to measure, for how long, and what follows from it.
#include "tuner/search/measure.h"

#include <algorithm>
#include <cmath>

#include "tuner/model/cost_model.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/residual_model.h"

namespace tuner {

using engine::Outcome;
using engine::OutcomeStatus;
using engine::ParallelPlan;

namespace {

constexpr int64_t kFirstSamples = 3;
constexpr int kRounds = 3;          // of which each doubles the samples of the faster half
constexpr size_t kFewestPlans = 3;  // before a small chance ends the choosing
constexpr double kSmallChance = 0.02;
constexpr double kHopeless = 3;        // times the best plan's step
constexpr double kLeastDeadline = 60;  // seconds
constexpr double kPatience = 30;       // times the time expected

struct Item {
  PlanAnswer* answer = nullptr;
  bool is_baseline = false;
  bool tried = false;
  Measurement measurement = {};
  double predicted_seconds = 0;

  bool timed() const { return tried && !measurement.samples.empty() && !failed(); }
  bool failed() const {
    const OutcomeStatus status = measurement.outcome.status;
    return tried && status != OutcomeStatus::ok && status != OutcomeStatus::interrupted;
  }
  // Of the first samples only, so that a repetition that recalls more decides alike.
  double median(int64_t samples) const {
    std::vector<double> first = measurement.samples;
    first.resize(std::min(first.size(), static_cast<size_t>(samples)));
    return summarize_samples(first).median;
  }
};

class Measuring {
 public:
  Measuring(const Scenario& scenario, Profiler& profiler, const MeasureOptions& options,
            std::vector<PlanAnswer>& plans, std::optional<PlanAnswer>& baseline)
      : scenario_(scenario), profiler_(profiler), options_(options) {
    account_.environment = profiler.environment();
    account_.budget_seconds = options.budget_seconds;
    for (PlanAnswer& answer : plans) items_.push_back({.answer = &answer});
    if (!baseline || !baseline->predicted.fits) return;
    const auto same = std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
      return item.answer->plan == baseline->plan;
    });
    if (same == items_.end())
      items_.push_back({.answer = &*baseline, .is_baseline = true});
    else
      same->is_baseline = true;
  }

  MeasureAccount run() {
    for (Item& item : items_) item.predicted_seconds = item.answer->predicted.step_seconds;
    choose_and_measure();
    halve();
    report();
    return std::move(account_);
  }

 private:
  bool over() const { return account_.interrupted || account_.budget_ended; }

  ResidualModel residuals() const {
    ResidualModel model(scenario_.rates.residual_sigma, scenario_.rates.residual_correlation);
    for (const Item& item : items_)
      if (item.timed())
        model.add(item.answer->plan, item.predicted_seconds, item.median(kFirstSamples));
    return model;
  }

  double best_seconds(int64_t samples) const {
    double best = 0;
    for (const Item& item : items_)
      if (item.timed() && (best == 0 || item.median(samples) < best)) best = item.median(samples);
    return best;
  }

  // The plan with the best chance to beat what was measured, apart from those already chosen;
  // nothing when none has a real one.
  Item* next_to_measure(size_t done, const std::vector<Item*>& chosen_before) {
    const ResidualModel model = residuals();
    const double best = best_seconds(kFirstSamples);
    Item* chosen = nullptr;
    double most = best > 0 && done >= kFewestPlans ? kSmallChance : -1;
    for (Item& item : items_) {
      if (item.tried || std::count(chosen_before.begin(), chosen_before.end(), &item) > 0) continue;
      if (best == 0) return &item;  // the predicted order
      const auto [log_factor, sigma] = model.correction(item.answer->plan);
      const double ahead = std::log(best / item.predicted_seconds) - log_factor;
      const double chance = 0.5 * std::erfc(-ahead / sigma / std::sqrt(2.0));
      if (chance <= most) continue;
      most = chance;
      chosen = &item;
    }
    return chosen;
  }

  void choose_and_measure() {
    const auto most = std::min(items_.size(), static_cast<size_t>(options_.most_plans));
    const auto at_once = static_cast<size_t>(options_.at_once);
    size_t done = 0;
    auto take = [&](const std::vector<Item*>& items) {
      measure(items, kFirstSamples, done, most);
      done += items.size();
    };
    if (most > 0) take({&items_.front()});
    if (most > 1)
      for (Item& item : items_)
        if (item.is_baseline && !item.tried && !over()) take({&item});
    while (done < most && !over()) {
      std::vector<Item*> next;
      while (next.size() < std::min(at_once, most - done)) {
        Item* one = next_to_measure(done + next.size(), next);
        if (one == nullptr) break;
        next.push_back(one);
      }
      if (next.empty()) return;
      take(next);
    }
  }

  void halve() {
    std::vector<Item*> left;
    for (Item& item : items_)
      if (item.timed()) left.push_back(&item);
    const auto at_once = static_cast<size_t>(options_.at_once);
    int64_t samples = kFirstSamples;
    for (int round = 1; round < kRounds && left.size() > 1; ++round) {
      std::stable_sort(left.begin(), left.end(), [&](const Item* a, const Item* b) {
        return a->median(samples) < b->median(samples);
      });
      left.resize((left.size() + 1) / 2);
      samples *= 2;
      for (size_t i = 0; i < left.size() && !over(); i += at_once) {
        const auto first = left.begin() + static_cast<std::ptrdiff_t>(i);
        const auto count = static_cast<std::ptrdiff_t>(std::min(at_once, left.size() - i));
        measure({first, first + count}, samples, i, left.size());
      }
      std::erase_if(left, [](const Item* item) { return !item->timed(); });
    }
  }

  TrialLimits limits_of(const Item& item, int64_t samples, double budget_seconds) const {
    const double best = best_seconds(samples);
    const double expected = std::max(best, item.predicted_seconds);
    TrialLimits limits;
    limits.deadline_seconds =
        std::max(kLeastDeadline, kPatience * expected * static_cast<double>(samples));
    limits.budget_seconds = budget_seconds;
    limits.stop = options_.stop;
    limits.hopeless_seconds = item.is_baseline || item.timed() ? 0 : kHopeless * best;
    return limits;
  }

  // Side by side.
  void measure(const std::vector<Item*>& items, int64_t samples, size_t done, size_t total) {
    const double remaining = options_.budget_seconds - account_.spent_seconds;
    if (options_.stop != nullptr && *options_.stop != 0) account_.interrupted = true;
    if (remaining <= 0) account_.budget_ended = true;
    if (over()) return;
    tell(*items.front(), done, total, best_seconds(samples));
    std::vector<TrialRequest> requests;
    for (const Item* item : items)
      requests.push_back(
          {job_of(scenario_, item->answer->plan),
           limits_of(*item, samples, remaining / static_cast<double>(items.size()))});
    std::vector<Measurement> results = profiler_.measure_together(std::move(requests), samples);
    for (const Measurement& result : results) {
      account_.new_trials += result.new_trials;
      account_.spent_seconds += result.spent_seconds;
    }
    if (options_.stop != nullptr && *options_.stop != 0) account_.interrupted = true;
    if (account_.spent_seconds >= options_.budget_seconds) account_.budget_ended = true;
    for (size_t i = 0; i < items.size(); ++i) take_result(*items[i], std::move(results[i]));
  }

  void take_result(Item& item, Measurement result) {
    // A trial that we cut off before its first step says nothing.
    if (over() && result.samples.empty() && result.outcome.status == OutcomeStatus::interrupted)
      return;
    if (!item.tried) order_.push_back(&item);
    item.tried = true;
    const int before = item.measurement.new_trials;
    item.measurement = std::move(result);
    item.measurement.new_trials += before;
  }

  void tell(const Item& item, size_t done, size_t total, double best) const {
    if (!options_.progress) return;
    const auto failures =
        std::count_if(items_.begin(), items_.end(), [](const Item& one) { return one.failed(); });
    options_.progress({static_cast<int>(done), static_cast<int>(total), static_cast<int>(failures),
                       best, account_.spent_seconds, options_.budget_seconds,
                       engine::describe(item.answer->plan)});
  }

  void report() {
    for (const Item* item : order_) {
      PlanAnswer& answer = *item->answer;
      Outcome outcome = item->measurement.outcome;
      const double peak = scenario_.cluster.device.peak(scenario_.workload.precision);
      outcome.mfu = peak > 0 ? outcome.tflops_per_gpu * 1e12 / peak : 0;
      account_.plans.push_back({answer.plan, item->predicted_seconds,
                                answer.predicted.memory.peak_bytes, outcome,
                                item->measurement.trials, item->measurement.new_trials == 0});
      answer.measured = std::move(outcome);
    }
    correct();
  }

  // Predictions of what was not measured, by what was.
  void correct() {
    if (best_seconds(kFirstSamples) == 0) return;
    const ResidualModel model = residuals();
    std::vector<double> factors;
    for (Item& item : items_) {
      if (item.tried) continue;
      const auto [log_factor, sigma] = model.correction(item.answer->plan);
      const double factor = std::exp(log_factor);
      Outcome& predicted = item.answer->predicted;
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
  std::vector<Item> items_;
  std::vector<const Item*> order_;
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
