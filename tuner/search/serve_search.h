// Serve search: enumerates every legal serving plan, and finds the best under budgets.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tuner/model/batching.h"
#include "tuner/model/serve_scenario.h"
#include "tuner/search/standing.h"

namespace tuner {

// Which of the requests a budget is held against, where they differ.
enum class Statistic : uint8_t { mean, p50, p90, p99 };
constexpr std::array<std::string_view, 4> kStatisticNames = {"mean", "p50", "p90", "p99"};

// Limits on what a plan may need, and the least it must give; absent = none.
struct ServeBudgets {
  std::optional<double> latency_seconds;
  std::optional<double> ttft_seconds;
  std::optional<double> tpot_seconds;
  std::optional<double> tokens_per_second;  // of all replicas, at least
  Statistic statistic = Statistic::mean;

  bool any() const { return latency_seconds || ttft_seconds || tpot_seconds || tokens_per_second; }
};

// What the user wants of a plan; empty = whatever is best. Formats are never more than is asked
// for.
struct ServeRestrictions {
  std::vector<int> tp, ep, pp, replicas;
  std::vector<int64_t> batch;
  std::vector<ServeFormat> weights, kv;  // empty = as in the checkpoint
};

struct ServeCandidate {
  ServePlan plan;
  ServePrediction predicted;
  // By how much the budgets are missed: the largest ratio over a budget, at most 1 when all are
  // met.
  double excess = 0;
  // By trials; then `excess` is that of what was measured.
  std::optional<engine::Outcome> measured = {};
  std::optional<bool> kept_up = {};  // with the arrivals, by trials that were long enough to tell

  bool is_timed() const { return measured && measured->serving && measured->step_seconds > 0; }
  bool has_failed() const { return measured && !is_timed(); }
  bool carries_load() const { return kept_up.value_or(predicted.sustained); }
  bool meets() const { return excess <= 1 && carries_load() && !has_failed(); }
  double tokens_per_second() const {
    return is_timed() ? measured->serving->tokens_per_second : predicted.tokens_per_second;
  }
  double latency_seconds() const {
    return is_timed() ? measured->step_seconds : predicted.latency_seconds;
  }
};

struct ServeSearchResult {
  int64_t candidates = 0, legal = 0, fits = 0, meets = 0;
  double seconds = 0;  // wall time of the search
  // The best of every kind (tp, ep, pp, formats), best first: those that meet the budgets by
  // throughput (by latency where a throughput is asked for), then the others by how much they miss.
  std::vector<ServeCandidate> best;
  std::vector<ServeCandidate> all;  // that fit, in no order
  // Latency against throughput of all GPUs, over everything that fits: from the lowest latency to
  // the highest throughput.
  std::vector<ServeCandidate> frontier;
  // The fewest GPUs that meet the budgets and carry the load; absent where none does.
  std::optional<ServeCandidate> smallest;
  // The plan that lacks least memory when none fits.
  std::optional<ServeCandidate> nearest_to_fit;
};

ServeSearchResult search_serving(const ServeScenario& scenario,
                                 const ServeRestrictions& restrictions,
                                 const ServeBudgets& budgets);

// The number that a budget is held against: the mean, or a percentile where requests differ.
double value_at(Statistic statistic, double mean, const std::optional<Percentiles>& percentiles);

// How good an answer to the budgets it is, by trials where there are some: the throughput counts,
// then the latency; where a throughput is asked for, the latter first. One that cannot carry the
// load stands behind all that can.
Standing standing_of(const ServeBudgets& budgets, const ServeCandidate& candidate);
// Whether `a` stands before `b`.
bool is_better(const ServeBudgets& budgets, const ServeCandidate& a, const ServeCandidate& b);

// The largest ratio of a prediction over its budget.
double excess_over(const ServeBudgets& budgets, const ServePrediction& prediction);
// The same of what trials measured.
double excess_over(const ServeBudgets& budgets, const engine::Outcome& measured);

// Whether trials of the plan kept up with arrivals that do not wait for answers; nullopt where
// there are no such, or too few requests to tell.
std::optional<bool> keeps_up(const ServeWorkload& work, const ServePlan& plan,
                             const engine::Outcome& measured);

}  // namespace tuner
