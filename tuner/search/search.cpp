// Exhaustive search over legal plans.
#include "tuner/search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"

namespace tuner {

using engine::ParallelPlan;

namespace {

constexpr size_t kMostFinalists = 64;

bool faster(const ScoredPlan& a, const ScoredPlan& b) { return a.step_seconds < b.step_seconds; }

// The fastest plans of all, and the fastest of each kind.
class Ranking {
 public:
  void add(const ParallelPlan& plan, double step_seconds, double peak_bytes) {
    ScoredPlan& best = best_of_kind_[kind_of(plan)];
    const bool first = best.step_seconds == 0;
    if (first || step_seconds < best.step_seconds) best = {plan, step_seconds, peak_bytes};
    if (fastest_.size() == kMostFinalists && step_seconds >= fastest_.front().step_seconds) return;
    fastest_.push_back({plan, step_seconds, peak_bytes});
    std::push_heap(fastest_.begin(), fastest_.end(), faster);
    if (fastest_.size() <= kMostFinalists) return;
    std::pop_heap(fastest_.begin(), fastest_.end(), faster);
    fastest_.pop_back();
  }

  std::vector<ScoredPlan> finalists() const {
    std::vector<ScoredPlan> all = fastest_;
    for (const auto& [kind, scored] : best_of_kind_)
      if (std::none_of(fastest_.begin(), fastest_.end(),
                       [&, &best = scored](const auto& s) { return s.plan == best.plan; }))
        all.push_back(scored);
    std::stable_sort(all.begin(), all.end(), faster);
    return all;
  }

 private:
  std::vector<ScoredPlan> fastest_;  // a heap, the slowest in front
  std::map<PlanKind, ScoredPlan> best_of_kind_;
};

// Both models, with what depends on (tp, cp, mbs, sp) computed once a group.
class Evaluator {
 public:
  explicit Evaluator(const Scenario& scenario) : memory_(scenario), cost_(scenario) {}
  void enter(const ParallelPlan& group) {
    rank_memory_ = memory_.rank_memory(group);
    micro_batch_ = cost_.micro_batch_cost(group);
  }
  double peak_bytes(const ParallelPlan& plan) const {
    return memory_.peak_bytes(rank_memory_, plan);
  }
  bool fits(double bytes) const { return memory_.fits(bytes); }
  double step_seconds(const ParallelPlan& plan) const {
    return cost_.step(micro_batch_, plan).total();
  }

 private:
  MemoryModel memory_;
  CostModel cost_;
  RankMemory rank_memory_;
  MicroBatchCost micro_batch_;
};

// How far two plans lie apart: one for every member that differs, plus the size of the change.
double distance(const ParallelPlan& a, const ParallelPlan& b) {
  double sum = 0;
  auto degree = [&](double x, double y) {
    if (x != y) sum += 1 + 0.1 * std::abs(std::log2(x / y));
  };
  degree(a.tp, b.tp);
  degree(a.pp, b.pp);
  degree(a.vpp, b.vpp);
  degree(a.cp, b.cp);
  degree(static_cast<double>(a.mbs), static_cast<double>(b.mbs));
  // dp follows from the others on a given number of GPUs.
  if (a.dp != b.dp) sum += 0.05 * std::abs(std::log2(static_cast<double>(a.dp) / b.dp));
  if (a.sp != b.sp) sum += 1;
  if (a.zero != b.zero) sum += 0.9 + 0.1 * std::abs(a.zero - b.zero);
  if (a.recompute.mode != b.recompute.mode)
    sum += 1;
  else if (a.recompute.layers != b.recompute.layers)
    sum += 0.5;
  if (a.layers_per_stage != b.layers_per_stage) sum += 0.5;
  return sum;
}

}  // namespace

PlanKind kind_of(const ParallelPlan& plan) {
  return {plan.tp, plan.cp, plan.sp, plan.zero, plan.recompute.mode};
}

SearchResult search_plans(const Scenario& scenario, const Restrictions& restrictions) {
  const auto start = std::chrono::steady_clock::now();
  const SearchSpace space(scenario, restrictions);
  Evaluator evaluator(scenario);
  Ranking ranking;
  PlanCells cells(scenario.cluster.device.memory_bytes);
  SearchResult result;
  result.counts = space.for_each(
      [&](const ParallelPlan& group) { evaluator.enter(group); },
      [&](const ParallelPlan& plan) {
        const double peak = evaluator.peak_bytes(plan);
        if (evaluator.fits(peak)) {
          ++result.fits;
          const double seconds = evaluator.step_seconds(plan);
          ranking.add(plan, seconds, peak);
          cells.add(plan, seconds, peak);
        } else if (result.fits == 0 && (!result.smallest || peak < result.smallest->peak_bytes)) {
          result.smallest = {plan, evaluator.step_seconds(plan), peak};
        }
      });
  if (result.fits > 0) result.smallest.reset();
  result.finalists = ranking.finalists();
  result.cells = cells.cells();
  result.cell_width = cells.width();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<ScoredPlan> nearest_plans(const Scenario& scenario, const ParallelPlan& plan,
                                      int count) {
  struct Near {
    bool misses_memory;
    double distance;
    ScoredPlan scored;
    bool operator<(const Near& other) const {
      return std::tie(misses_memory, distance, scored.step_seconds) <
             std::tie(other.misses_memory, other.distance, other.scored.step_seconds);
    }
  };
  std::map<PlanKind, Near> nearest_of_kind;
  Evaluator evaluator(scenario);
  const SearchSpace space(scenario, {});
  space.for_each([&](const ParallelPlan& group) { evaluator.enter(group); },
                 [&](const ParallelPlan& other) {
                   if (other == plan) return;
                   const double peak = evaluator.peak_bytes(other);
                   Near near{!evaluator.fits(peak), distance(plan, other), {other, 0, peak}};
                   const auto known = nearest_of_kind.find(kind_of(other));
                   if (known != nearest_of_kind.end() &&
                       std::tie(near.misses_memory, near.distance) >
                           std::tie(known->second.misses_memory, known->second.distance))
                     return;
                   near.scored.step_seconds = evaluator.step_seconds(other);
                   if (known == nearest_of_kind.end())
                     nearest_of_kind.emplace(kind_of(other), std::move(near));
                   else if (near < known->second)
                     known->second = std::move(near);
                 });
  std::vector<Near> nearest;
  for (auto& [kind, near] : nearest_of_kind) nearest.push_back(std::move(near));
  std::stable_sort(nearest.begin(), nearest.end());
  nearest.resize(std::min(nearest.size(), static_cast<size_t>(count)));
  std::vector<ScoredPlan> plans;
  for (Near& near : nearest) plans.push_back(std::move(near.scored));
  return plans;
}

}  // namespace tuner
