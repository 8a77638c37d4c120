// Enumeration of serving plans.
#include "tuner/search/serve_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

#include "tuner/space/serve_rules.h"

namespace tuner {

namespace {

constexpr int64_t kLargestBatch = 4096;
constexpr int kLargestTensor = 64;
constexpr size_t kFrontierPoints = 24;

// 1, 2, 3, 4, 6, 8, 12, …: powers of two and what lies between them.
std::vector<int64_t> batch_grid(int64_t most) {
  std::vector<int64_t> grid;
  for (int64_t power = 1; power <= most; power *= 2) {
    grid.push_back(power);
    if (power > 1 && power * 3 / 2 <= most) grid.push_back(power * 3 / 2);
  }
  if (!grid.empty() && grid.back() != most) grid.push_back(most);
  return grid;
}

template <class T>
bool allows(const std::vector<T>& list, T value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

class Enumeration {
 public:
  Enumeration(const ServeScenario& scenario, const ServeRestrictions& restrictions,
              const ServeBudgets& budgets)
      : s_(scenario), only_(restrictions), budgets_(budgets) {}

  ServeSearchResult run() {
    const auto began = std::chrono::steady_clock::now();
    std::vector<ServeFormat> weights = only_.weights;
    if (weights.empty()) weights.push_back(checkpoint_weights(s_));
    for (const ServeFormat format : weights) {
      std::vector<ServeFormat> kv = only_.kv;
      if (kv.empty()) kv.push_back(checkpoint_kv(s_, format));
      for (const ServeFormat cache : kv) formats(format, cache);
    }
    finish();
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(result_);
  }

 private:
  using Kind = std::tuple<int, int, int, ServeFormat, ServeFormat>;

  void formats(ServeFormat weights, ServeFormat kv) {
    const int gpus = s_.cluster.gpus;
    for (int tp = 1; tp <= gpus; ++tp) {
      if (only_.tp.empty() ? tp > kLargestTensor : !allows(only_.tp, tp)) continue;
      for (int pp = 1; pp <= gpus / tp && pp <= s_.model.layers; ++pp) {
        if (only_.pp.empty() ? !is_usual(pp) : !allows(only_.pp, pp)) continue;
        for (const int ep : expert_degrees(tp)) {
          const ServePlan plan{.tp = tp,
                               .ep = ep,
                               .pp = pp,
                               .replicas = gpus / (tp * pp),
                               .weights = weights,
                               .kv = kv};
          ++result_.candidates;
          if (!tensor_is_legal(s_, tp) || !serve_violations(s_, plan).empty()) continue;
          ++result_.legal;
          degrees(plan);
        }
      }
    }
  }

  // All experts sliced, or all of them whole, unless others are asked for.
  std::vector<int> expert_degrees(int tp) const {
    if (!only_.ep.empty()) return only_.ep;
    if (s_.model.is_dense() || tp == 1) return {1};
    return {1, tp};
  }

  // Deep pipelines with uneven stages are not tried unless they are asked for.
  bool is_usual(int pp) const {
    constexpr int kShallow = 8, kDeepest = 32;
    return pp <= kShallow || (pp <= kDeepest && s_.model.layers % pp == 0);
  }

  void degrees(const ServePlan& plan) {
    std::vector<int> replicas = only_.replicas;
    if (replicas.empty()) replicas.push_back(plan.replicas);
    for (const int count : replicas) {
      if (count > plan.replicas) continue;
      ServePlan with = plan;
      with.replicas = count;
      batches(with);
    }
  }

  // The largest batch worth trying: what has room, and what ever arrives.
  int64_t most_batch(const ServePlan& plan) const {
    ServePlan probe = plan;
    probe.batch = 1;
    const ServeModel model(s_, probe);
    double most = std::min<double>(kLargestBatch, static_cast<double>(s_.stack.sequences));
    if (!model.runs_whole_batch()) most = std::min(most, model.most_sequences());
    if (s_.workload.arrival == Arrival::closed_loop)
      most = std::min(most, std::ceil(s_.workload.concurrency / plan.replicas));
    if (s_.workload.arrival == Arrival::isolated) most = 1;
    return std::max<int64_t>(1, static_cast<int64_t>(most));
  }

  void batches(ServePlan plan) {
    const std::vector<int64_t> grid =
        only_.batch.empty() ? batch_grid(most_batch(plan)) : only_.batch;
    int64_t last_good = 0, first_bad = 0;
    for (const int64_t batch : grid) {
      plan.batch = batch;
      const ServeCandidate candidate = consider(plan);
      const bool good = has_room(candidate) && candidate.excess <= 1;
      if (good) last_good = batch;
      if (!good && last_good > 0 && first_bad == 0) first_bad = batch;
      if (!has_room(candidate)) break;  // memory grows with the batch
    }
    // Between the last batch of the grid that meets the budgets and the next.
    while (only_.batch.empty() && first_bad - last_good > 1) {
      plan.batch = (first_bad + last_good) / 2;
      const ServeCandidate candidate = consider(plan);
      const bool good = has_room(candidate) && candidate.excess <= 1;
      (good ? last_good : first_bad) = plan.batch;
    }
  }

  // A static batch is one of sequences that run together.
  static bool has_room(const ServeCandidate& candidate) {
    return candidate.predicted.fits && !candidate.predicted.in_turns;
  }

  ServeCandidate consider(const ServePlan& plan) {
    ServeCandidate candidate{plan, predict_serving(s_, plan), 0};
    candidate.excess = excess_over(budgets_, candidate.predicted);
    if (!candidate.predicted.fits) {
      const auto lacks = [](const ServeCandidate& c) { return c.predicted.memory.lacking_bytes(); };
      if (!result_.nearest_to_fit || lacks(candidate) < lacks(*result_.nearest_to_fit))
        result_.nearest_to_fit = candidate;
      return candidate;
    }
    if (!has_room(candidate)) return candidate;
    ++result_.fits;
    result_.meets += candidate.meets();
    all_.push_back(candidate);
    const Kind kind{plan.tp, plan.ep, plan.pp, plan.weights, plan.kv};
    const auto [place, is_new] = kinds_.emplace(kind, candidate);
    if (!is_new && is_better(candidate, place->second)) place->second = candidate;
    return candidate;
  }

  bool is_better(const ServeCandidate& a, const ServeCandidate& b) const {
    return tuner::is_better(budgets_, a, b);
  }

  void finish() {
    for (auto& [kind, candidate] : kinds_) result_.best.push_back(std::move(candidate));
    std::stable_sort(result_.best.begin(), result_.best.end(),
                     [&](const auto& a, const auto& b) { return is_better(a, b); });
    find_frontier();
    find_smallest();
    result_.all = std::move(all_);
  }

  void find_frontier() {
    std::vector<const ServeCandidate*> order;
    for (const ServeCandidate& candidate : all_)
      if (candidate.predicted.sustained) order.push_back(&candidate);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->predicted.latency_seconds, -a->predicted.tokens_per_second) <
             std::pair(b->predicted.latency_seconds, -b->predicted.tokens_per_second);
    });
    std::vector<const ServeCandidate*> points;
    for (const ServeCandidate* candidate : order)
      if (points.empty() ||
          candidate->predicted.tokens_per_second > points.back()->predicted.tokens_per_second)
        points.push_back(candidate);
    const size_t kept = std::min(points.size(), kFrontierPoints);
    for (size_t i = 0; i < kept; ++i)
      result_.frontier.push_back(*points[kept == 1 ? 0 : i * (points.size() - 1) / (kept - 1)]);
  }

  // Of the best of every kind, with as few replicas as keep the budgets and the load: fewer
  // replicas never help either.
  void find_smallest() {
    for (const ServeCandidate& candidate : result_.best) {
      if (!candidate.meets()) continue;
      const int each = candidate.plan.tp * candidate.plan.pp;
      int enough = candidate.plan.replicas, few = 0;
      if (result_.smallest) enough = std::min(enough, (result_.smallest->plan.gpus() - 1) / each);
      std::optional<ServeCandidate> found = with_replicas(candidate.plan, enough);
      while (found && enough - few > 1) {
        const int middle = (enough + few) / 2;
        const auto fewer = with_replicas(candidate.plan, middle);
        (fewer ? enough : few) = middle;
        if (fewer) found = fewer;
      }
      if (found) result_.smallest = found;
    }
  }

  std::optional<ServeCandidate> with_replicas(ServePlan plan, int replicas) const {
    if (replicas < 1) return std::nullopt;
    plan.replicas = replicas;
    ServeCandidate candidate{plan, predict_serving(s_, plan), 0};
    candidate.excess = excess_over(budgets_, candidate.predicted);
    if (!candidate.predicted.fits || !candidate.meets()) return std::nullopt;
    return candidate;
  }

  const ServeScenario& s_;
  const ServeRestrictions& only_;
  const ServeBudgets& budgets_;
  ServeSearchResult result_;
  std::vector<ServeCandidate> all_;
  std::map<Kind, ServeCandidate> kinds_;
};

}  // namespace

Standing standing_of(const ServeBudgets& budgets, const ServeCandidate& candidate) {
  constexpr double kNever = 1e9;
  const bool carries = candidate.carries_load() && !candidate.has_failed();
  const double latency = candidate.latency_seconds(), token = 1 / candidate.tokens_per_second();
  const double excess = carries ? candidate.excess : kNever * (1 + candidate.excess);
  if (budgets.tokens_per_second) return {latency, excess, token};
  return {token, excess, latency};
}

bool is_better(const ServeBudgets& budgets, const ServeCandidate& a, const ServeCandidate& b) {
  return standing_of(budgets, a).is_better_than(standing_of(budgets, b));
}

double value_at(Statistic statistic, double mean, const std::optional<Percentiles>& percentiles) {
  if (!percentiles) return mean;
  switch (statistic) {
    case Statistic::mean:
      return mean;
    case Statistic::p50:
      return percentiles->p50;
    case Statistic::p90:
      return percentiles->p90;
    case Statistic::p99:
      return percentiles->p99;
  }
  return mean;
}

double excess_over(const ServeBudgets& budgets, const ServePrediction& p) {
  double excess = 0;
  const auto limit = [&](const std::optional<double>& budget, double value) {
    if (budget) excess = std::max(excess, value / *budget);
  };
  const auto value = [&](double mean, const std::optional<Percentiles>& percentiles) {
    return value_at(budgets.statistic, mean, percentiles);
  };
  limit(budgets.latency_seconds, value(p.latency_seconds, p.latency));
  limit(budgets.ttft_seconds, value(p.ttft_seconds, p.ttft));
  limit(budgets.tpot_seconds, value(p.tpot_seconds, p.tpot));
  if (budgets.tokens_per_second)
    excess = std::max(excess, *budgets.tokens_per_second / p.tokens_per_second);
  return excess;
}

double excess_over(const ServeBudgets& budgets, const engine::Outcome& measured) {
  double excess = 0;
  const auto limit = [&](const std::optional<double>& budget, const engine::Spread& spread) {
    if (!budget) return;
    const Percentiles percentiles{spread.p50, spread.p90, spread.p99};
    excess = std::max(excess, value_at(budgets.statistic, spread.mean, percentiles) / *budget);
  };
  const engine::ServingOutcome& serving = measured.serving.value();
  limit(budgets.latency_seconds, serving.latency_seconds);
  limit(budgets.ttft_seconds, serving.ttft_seconds);
  limit(budgets.tpot_seconds, serving.tpot_seconds);
  if (budgets.tokens_per_second)
    excess = std::max(excess, *budgets.tokens_per_second / serving.tokens_per_second);
  return excess;
}

// A trial ends when its last request is answered, so that requests which need not wait are served
// at the rate of their arrivals, but for the time of that one. As many independent arrivals are off
// from their mean rate by about one over the square root of their number.
std::optional<bool> keeps_up(const ServeWorkload& work, const ServePlan& plan,
                             const engine::Outcome& measured) {
  constexpr double kFewest = 16, kDeviations = 2;
  if (work.arrival != Arrival::poisson || !measured.serving) return std::nullopt;
  const engine::ServingOutcome& serving = *measured.serving;
  // With those of the warm-up, one batch of every replica.
  const auto requests = static_cast<double>(serving.requests + plan.batch * plan.replicas);
  if (requests < kFewest || !(serving.tokens_per_second > 0)) return std::nullopt;
  const auto output = static_cast<double>(work.output);
  const double seconds = requests * output / serving.tokens_per_second;
  const double last = (output - 1) * serving.tpot_seconds.mean;
  const double arriving = requests / work.requests_per_second;
  return seconds - last <= arriving * (1 + kDeviations / std::sqrt(requests));
}

ServeSearchResult search_serving(const ServeScenario& scenario,
                                 const ServeRestrictions& restrictions,
                                 const ServeBudgets& budgets) {
  return Enumeration(scenario, restrictions, budgets).run();
}

}  // namespace tuner
