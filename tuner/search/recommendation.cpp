// From ranked plans to an answer with reasons.
#include "tuner/search/recommendation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "engine/base/units.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/explain.h"
#include "tuner/space/grids.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;

namespace {

constexpr size_t kMostRunnersUp = 6;
constexpr size_t kMostSimulated = 48;

// Whether two plans are one choice for a reader: only degrees of pipeline and data differ.
using CoarseKind = std::tuple<int, int, Recompute::Mode>;
CoarseKind coarse_kind(const ParallelPlan& plan) { return {plan.tp, plan.cp, plan.recompute.mode}; }

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double sigma_of(const engine::Interval& interval) { return log_sigma_of(interval) + 1e-9; }

// The probability that the plan with the longer predicted step is faster in truth. Two plans of one
// model on one machine share most of the error of the model.
double probability_of_reversal(const Rates& rates, const engine::Outcome& best,
                               const engine::Outcome& other, double slower) {
  const double a = sigma_of(best.interval_seconds), b = sigma_of(other.interval_seconds);
  const double variance = a * a + b * b - 2 * rates.residual_correlation * a * b;
  return normal_cdf(-std::log1p(slower) / std::sqrt(variance));
}

// The same for two plans whose times are measured: from the interval of the ratio of their medians.
double probability_of_reversal(const engine::Outcome& best, const engine::Outcome& other) {
  const Ratio ratio = ratio_of_medians(other.samples_seconds, best.samples_seconds);
  return normal_cdf(-std::log(ratio.value) / sigma_of(ratio.interval));
}

double probability_of_reversal(const Rates& rates, const PlanAnswer& best,
                               const PlanAnswer& other) {
  if (other.failed()) return 0;
  if (best.is_timed() && other.is_timed())
    return probability_of_reversal(*best.measured, *other.measured);
  return probability_of_reversal(rates, best.predicted, other.predicted,
                                 other.step_seconds() / best.step_seconds() - 1);
}

// Answers for the finalists, fastest first by the simulated step.
std::vector<PlanAnswer> simulate(const Scenario& scenario, const std::vector<ScoredPlan>& plans) {
  std::set<CoarseKind> kinds;
  std::vector<PlanAnswer> answers;
  size_t simulated = 0;
  for (const ScoredPlan& scored : plans) {
    // The fastest of all, and the fastest of every kind.
    if (!kinds.insert(coarse_kind(scored.plan)).second && simulated >= kMostSimulated / 2) continue;
    if (++simulated > kMostSimulated) break;
    answers.push_back(predict_plan(scenario, scored.plan));
  }
  std::stable_sort(answers.begin(), answers.end(), [](const auto& a, const auto& b) {
    return a.predicted.step_seconds < b.predicted.step_seconds;
  });
  return answers;
}

std::vector<RunnerUp> runners_up(const Scenario& scenario, const std::vector<PlanAnswer>& answers) {
  std::vector<RunnerUp> chosen;
  std::set<CoarseKind> kinds{coarse_kind(answers.front().plan)};
  const PlanAnswer& best = answers.front();
  for (const PlanAnswer& answer : answers) {
    if (chosen.size() == kMostRunnersUp) break;
    if (!kinds.insert(coarse_kind(answer.plan)).second) continue;
    const double slower = answer.step_seconds() / best.step_seconds() - 1;
    chosen.push_back({answer, slower, probability_of_reversal(scenario.rates, best, answer),
                      difference(best.plan, answer.plan)});
  }
  return chosen;
}

GridComparison compare_with_grid(const Scenario& scenario) {
  const GridPlans grid = grid_plans(scenario.model, scenario.workload, scenario.cluster.gpus,
                                    scenario.cluster.device.memory_bytes);
  GridComparison comparison{grid.name, grid.origin, static_cast<int64_t>(grid.plans.size()),
                            0,         0,           std::nullopt};
  const MemoryModel memory(scenario);
  const CostModel cost(scenario);
  std::optional<ParallelPlan> best;
  double best_seconds = 0;
  for (const ParallelPlan& tried : grid.plans) {
    const ParallelPlan plan = normalized(scenario, tried);
    if (!violations(scenario, plan).empty()) continue;
    ++comparison.legal;
    if (!memory.fits(memory.peak_bytes(memory.rank_memory(plan), plan))) continue;
    ++comparison.fits;
    const double seconds = cost.step(cost.micro_batch_cost(plan), plan).total();
    if (best && seconds >= best_seconds) continue;
    best = plan;
    best_seconds = seconds;
  }
  if (best) comparison.best = predict_plan(scenario, *best);
  return comparison;
}

}  // namespace

double Recommendation::speedup_over_baseline() const {
  return best && baseline ? baseline->step_seconds() / best->step_seconds() : 0;
}

double Recommendation::days_to_train() const {
  return best ? training_days(scenario.workload, best->step_seconds()) : 0;
}

double training_days(const engine::Workload& work, double step_seconds) {
  constexpr double kSecondsOfDay = 86400;
  return work.tokens / static_cast<double>(work.gbs * work.seq) * step_seconds / kSecondsOfDay;
}

std::optional<PlanAnswer> fastest_plan(const Scenario& scenario, const SearchResult& search) {
  std::vector<PlanAnswer> answers = simulate(scenario, search.finalists);
  if (answers.empty()) return std::nullopt;
  return std::move(answers.front());
}

PlanAnswer predict_plan(const Scenario& scenario, const ParallelPlan& plan) {
  PlanAnswer answer{plan, {}, std::nullopt};
  engine::Outcome& outcome = answer.predicted;
  outcome.violations = scenario_violations(scenario);
  for (engine::Violation& violation : violations(scenario, plan))
    outcome.violations.push_back(std::move(violation));
  if (!outcome.violations.empty()) return answer;
  const MemoryModel memory(scenario);
  CostModel(scenario).fill_outcome(plan, outcome);
  outcome.memory = memory.evaluate(plan);
  outcome.fits = memory.fits(outcome.memory.peak_bytes);
  return answer;
}

CheckAnswer check_plan(const Scenario& scenario, const ParallelPlan& plan,
                       const FrameworkOptions& options, int nearest) {
  CheckAnswer answer{predict_plan(scenario, plan), {}};
  engine::Outcome& outcome = answer.checked.predicted;
  const bool predicted = outcome.violations.empty();
  if (predicted && !outcome.fits)
    outcome.violations.push_back(
        {"AT0201",
         fmt::format(
             "the fullest stage needs {}, with the margin {}, of the {} that a GPU has",
             engine::format_bytes(outcome.memory.peak_bytes),
             engine::format_bytes(outcome.memory.peak_bytes * (1 + scenario.stack.memory_error)),
             engine::format_bytes(outcome.memory.capacity_bytes)),
         {}});
  // predict_plan knows no framework options: only their violations are added.
  std::vector<engine::Violation> with_options = violations(scenario, plan, options);
  const size_t known = violations(scenario, plan).size();
  outcome.violations.insert(outcome.violations.end(),
                            with_options.begin() + static_cast<std::ptrdiff_t>(known),
                            with_options.end());
  if (outcome.violations.empty() || !scenario_violations(scenario).empty()) return answer;
  for (const ScoredPlan& near : nearest_plans(scenario, plan, nearest)) {
    PlanAnswer other = predict_plan(scenario, near.plan);
    if (other.predicted.fits) answer.nearest.push_back(std::move(other));
  }
  return answer;
}

std::optional<ParallelPlan> baseline_plan(const Scenario& scenario) {
  ParallelPlan plan;
  plan.gbs = scenario.workload.gbs;
  plan.recompute = {Recompute::Mode::full, 0};
  for (int tp = 2; tp <= scenario.cluster.gpus_per_node(); tp *= 2) {
    ParallelPlan wider = plan;
    wider.tp = tp;
    if (scenario.cluster.gpus % tp == 0 && first_axis_violation(scenario, wider).empty())
      plan.tp = tp;
  }
  const MemoryModel memory(scenario);
  for (const int64_t pp : divisors(scenario.cluster.gpus / plan.tp)) {
    plan.pp = static_cast<int>(pp);
    plan.dp = scenario.cluster.gpus / plan.tp / plan.pp;
    const std::vector<int>& sharding = legal_zero(scenario.stack, plan.pp);
    plan.zero = plan.dp == 1 || sharding.empty() ? 0 : *std::ranges::min_element(sharding);
    for (const LayerLayout& layout :
         layer_layouts(scenario.stack, scenario.model.layers, plan.pp)) {
      plan.layers_per_stage = layout.layers_per_stage;
      if (layout.vpp == 1 && violations(scenario, plan).empty() &&
          memory.fits(memory.evaluate(plan).peak_bytes))
        return plan;
    }
  }
  return std::nullopt;
}

Recommendation recommend(const Scenario& scenario, const Restrictions& restrictions,
                         const Measure& measure) {
  Recommendation r;
  r.scenario = scenario;
  r.restrictions = restrictions;
  r.search = search_plans(scenario, restrictions);
  if (const auto plan = baseline_plan(scenario)) r.baseline = predict_plan(scenario, *plan);
  r.grid = compare_with_grid(scenario);
  std::vector<PlanAnswer> answers = simulate(scenario, r.search.finalists);
  r.simulated = static_cast<int64_t>(answers.size());
  if (answers.empty()) {
    r.remedies = remedies(scenario, restrictions, r.search);
    return r;
  }
  if (measure) r.measurement = measure(answers, r.baseline);
  r.best = answers.front();
  const ParallelPlan& plan = r.best->plan;
  if (const CostModel cost(scenario); plan.pp > 1 && !scenario.cluster.device.is_cpu())
    r.pipeline = cost.pipeline_times(cost.micro_batch_cost(plan), plan);
  r.runners_up = runners_up(scenario, answers);
  r.reasons = reasons(r);
  return r;
}

}  // namespace tuner
