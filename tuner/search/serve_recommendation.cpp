// From ranked serving plans to an answer with reasons.
#include "tuner/search/serve_recommendation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/base/units.h"
#include "tuner/search/serve_explain.h"
#include "tuner/search/serve_measure.h"
#include "tuner/space/serve_rules.h"

namespace tuner {

using engine::format_bytes;
using engine::format_grouped;
using engine::format_seconds;

namespace {

constexpr size_t kMostRunnersUp = 6;

std::string tokens(double per_second) {
  return per_second < 100 ? fmt::format("{:.3g} tokens/s", per_second)
                          : format_grouped(std::llround(per_second)) + " tokens/s";
}

std::string in_short(const ServeCandidate& c) {
  return fmt::format("{}: latency {}, {}", describe(c.plan),
                     format_seconds(c.predicted.latency_seconds),
                     tokens(c.predicted.tokens_per_second));
}

// Which budgets a prediction misses: "latency 3.1 s of 2 s".
std::string misses(const ServeBudgets& budgets, const ServePrediction& p) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::optional<double>& budget, double value) {
    if (budget && value > *budget)
      parts.push_back(
          fmt::format("{} {} of {}", name, format_seconds(value), format_seconds(*budget)));
  };
  add("latency", budgets.latency_seconds,
      value_at(budgets.statistic, p.latency_seconds, p.latency));
  add("TTFT", budgets.ttft_seconds, value_at(budgets.statistic, p.ttft_seconds, p.ttft));
  add("TPOT", budgets.tpot_seconds, value_at(budgets.statistic, p.tpot_seconds, p.tpot));
  if (budgets.tokens_per_second && p.tokens_per_second < *budgets.tokens_per_second)
    parts.push_back(
        fmt::format("{} of {}", tokens(p.tokens_per_second), tokens(*budgets.tokens_per_second)));
  if (!p.sustained) parts.emplace_back("requests arrive faster than they are served");
  return fmt::format("{}", fmt::join(parts, ", "));
}

// What is known of a candidate: its prediction, with measured times where there are some.
ServePrediction known(const ServeCandidate& candidate) {
  ServePrediction p = candidate.predicted;
  if (!candidate.is_timed()) return p;
  const engine::ServingOutcome& serving = *candidate.measured->serving;
  const auto take = [](const engine::Spread& spread, double& mean,
                       std::optional<Percentiles>& percentiles) {
    mean = spread.mean;
    percentiles = Percentiles{spread.p50, spread.p90, spread.p99};
  };
  take(serving.latency_seconds, p.latency_seconds, p.latency);
  take(serving.ttft_seconds, p.ttft_seconds, p.ttft);
  take(serving.tpot_seconds, p.tpot_seconds, p.tpot);
  p.tokens_per_second = serving.tokens_per_second;
  p.sustained = candidate.carries_load();
  return p;
}

std::string memory_phrase(const ServePrediction& p) {
  return fmt::format("{} of {}, of which {} stay free (weights {}, KV cache {}, activations {})",
                     format_bytes(p.memory.peak_bytes()), format_bytes(p.memory.capacity_bytes),
                     format_bytes(p.memory.headroom_bytes), format_bytes(p.memory.weight_bytes),
                     format_bytes(p.memory.kv_bytes), format_bytes(p.memory.activation_bytes));
}

ServeCandidate predict(const ServeScenario& s, const ServeBudgets& budgets, const ServePlan& plan) {
  ServeCandidate candidate{plan, predict_serving(s, plan), 0};
  candidate.excess = excess_over(budgets, candidate.predicted);
  return candidate;
}

// Of a static batch that runs in turns.
engine::Violation no_room_for_all(const ServeScenario& scenario, const ServePlan& plan) {
  const auto most = static_cast<int64_t>(ServeModel(scenario, plan).most_sequences());
  return {"AT0201",
          fmt::format("{} sequences of a batch of {} have room at a time, the others wait: the "
                      "batch is not a static one",
                      format_grouped(most), format_grouped(plan.batch)),
          {fmt::format("batch {}", most)}};
}

// Where the time of the best plan goes, and what the next larger choices would cost.
std::vector<std::string> reasons(const ServeRecommendation& r) {
  const ServeCandidate& best = *r.best;
  const ServePrediction& p = best.predicted;
  std::vector<std::string> sentences;
  const ServeParts sum = ServeParts(p.prefill).add(p.decode, 1);
  sentences.push_back(fmt::format("limited by {}: {:.0f} % of the {} {} a request",
                                  plain_name(p.limit), 100 * sum[p.limit] / p.latency_seconds,
                                  format_seconds(p.latency_seconds),
                                  best.is_timed() ? "predicted for" : "of"));
  const Arrival arrival = r.scenario.workload.arrival;
  if (arrival == Arrival::static_batch && r.restrictions.batch.empty() && !best.is_timed()) {
    ServePlan plan = best.plan;
    plan.batch = std::max(plan.batch + 1, plan.batch * 5 / 4);
    const ServeCandidate larger = predict(r.scenario, r.budgets, plan);
    if (!larger.predicted.fits)
      sentences.push_back(
          fmt::format("batch {}: does not fit, {}", plan.batch, memory_phrase(larger.predicted)));
    else if (best.meets() && !larger.meets())
      sentences.push_back(fmt::format("batch {}: misses the budget ({})", plan.batch,
                                      misses(r.budgets, larger.predicted)));
  }
  for (const ServeRunnerUp& other : r.runners_up) {
    if (other.candidate.plan.weights != best.plan.weights) continue;
    const bool missed = best.meets() && !other.candidate.meets();
    sentences.push_back(
        fmt::format("{}: {}", other.difference,
                    missed ? "misses the budget (" + misses(r.budgets, known(other.candidate)) + ")"
                           : trade_phrase(other.throughput, other.latency, other.measured)));
    if (sentences.size() >= 4) break;
  }
  return sentences;
}

// The best plan of a changed question.
std::optional<ServeCandidate> best_of(const ServeScenario& s, const ServeRestrictions& only,
                                      const ServeBudgets& budgets) {
  if (!serve_scenario_violations(s).empty()) return std::nullopt;
  ServeSearchResult found = search_serving(s, only, budgets);
  if (found.best.empty()) return std::nullopt;
  return std::move(found.best.front());
}

std::vector<ServeFormat> weights_of(const ServeScenario& s, const ServeRestrictions& only) {
  if (!only.weights.empty()) return only.weights;
  return {checkpoint_weights(s)};
}

// Formats that were not asked for and that the stack and the device have, smaller than the best.
std::vector<ServeFormat> smaller_formats(const ServeRecommendation& r) {
  double smallest = 8;
  for (const ServeFormat format : weights_of(r.scenario, r.restrictions))
    smallest = std::min(smallest, bytes_of(format));
  const std::vector<ServeFormat> legal = legal_weights(r.scenario);
  std::vector<ServeFormat> formats;
  for (const ServeFormat format :
       {ServeFormat::fp8, ServeFormat::int8, ServeFormat::fp4, ServeFormat::int4}) {
    const bool has = std::find(legal.begin(), legal.end(), format) != legal.end();
    const engine::Precision product = product_precision(format, r.scenario.cluster.device);
    // fp8 and fp4 without the arithmetic for it are no better than int8 and int4.
    const bool native = (format != ServeFormat::fp8 || product == engine::Precision::fp8) &&
                        (format != ServeFormat::fp4 || product == engine::Precision::nvfp4);
    if (has && native && bytes_of(format) < smallest) formats.push_back(format);
  }
  return formats;
}

bool answers(const ServeCandidate& candidate) { return candidate.meets(); }

// Whether the answer has a KV cache of 16 bits or more only because the checkpoint has.
bool could_narrow_cache(const ServeRecommendation& r) {
  const auto& offered = r.scenario.stack.kv;
  return r.restrictions.kv.empty() && r.scenario.model.kv_format.empty() &&
         std::find(offered.begin(), offered.end(), ServeFormat::fp8) != offered.end();
}

// Other formats: what meets the budgets, or how much more they would give.
void add_formats(ServeRecommendation& r) {
  const bool wanted = !r.meets_budget();
  const auto add = [&](const ServeRestrictions& only, const std::string& what) {
    const auto found = best_of(r.scenario, only, r.budgets);
    if (!found || !answers(*found)) return;
    const std::string text =
        fmt::format("with {}, whose accuracy is yours to check: {}{}", what, in_short(*found),
                    r.best && r.best->is_timed() ? ", predicted" : "");
    if (wanted)
      r.remedies.push_back(text);
    else if (found->predicted.tokens_per_second > 1.05 * r.best->predicted.tokens_per_second)
      r.hints.push_back(text);
  };
  for (const ServeFormat format : smaller_formats(r)) {
    ServeRestrictions only = r.restrictions;
    only.weights = {format};
    add(only, fmt::format("{} weights", name_of(format)));
  }
  if (!could_narrow_cache(r)) return;
  ServeRestrictions only = r.restrictions;
  only.kv = {ServeFormat::fp8};
  add(only, "an fp8 KV cache");
}

void add_more_gpus(ServeRecommendation& r) {
  for (int factor = 2; factor <= 16; factor *= 2) {
    ServeScenario other = r.scenario;
    other.cluster.gpus = r.scenario.cluster.gpus * factor;
    if (other.cluster.gpus > 100'000) return;
    const auto found = best_of(other, r.restrictions, r.budgets);
    if (!found || !answers(*found)) continue;
    r.remedies.push_back(
        fmt::format("with {} GPUs: {}", format_grouped(other.cluster.gpus), in_short(*found)));
    return;
  }
}

void add_other_gpus(ServeRecommendation& r) {
  const ServeRatesTable table = ServeRatesTable::load();
  for (const char* gpu : {"h100-80gb", "h200-141gb", "b200-180gb"}) {
    ServeScenario other = r.scenario;
    other.cluster = find_cluster(gpu, r.scenario.cluster.gpus);
    if (other.cluster.device.memory_bytes_per_second <=
        r.scenario.cluster.device.memory_bytes_per_second)
      continue;
    use_rates(other, table);
    const auto found = best_of(other, r.restrictions, r.budgets);
    if (!found || !answers(*found)) continue;
    r.remedies.push_back(fmt::format("on {} × {}: {}", format_grouped(other.cluster.gpus),
                                     other.cluster.device.name, in_short(*found)));
    return;
  }
}

void add_without_restrictions(ServeRecommendation& r) {
  ServeRestrictions free = r.restrictions;
  free.tp = free.ep = free.pp = free.replicas = {};
  free.batch = {};
  const auto found = best_of(r.scenario, free, r.budgets);
  if (found && answers(*found))
    r.remedies.push_back("without the restrictions on the plan: " + in_short(*found));
}

// Budgets as the best plan would meet them.
void add_relaxed(ServeRecommendation& r) {
  if (!r.best) return;
  r.remedies.push_back(
      fmt::format("the nearest plan misses: {}; with budgets that allow it, it is "
                  "the answer",
                  misses(r.budgets, known(*r.best))));
}

// The longest request for which one sequence has room, where not even one fits.
void add_shorter(ServeRecommendation& r) {
  const auto& lacking = r.search.nearest_to_fit;
  if (!lacking) return;
  r.remedies.push_back(fmt::format("the plan that lacks least, {}, needs {}",
                                   describe(lacking->plan), memory_phrase(lacking->predicted)));
  const double capacity = lacking->predicted.kv_token_capacity;
  const auto length = static_cast<double>(r.scenario.workload.input + r.scenario.workload.output);
  if (capacity >= 1 && capacity < length)
    r.remedies.push_back(fmt::format(
        "its KV cache has room for {} tokens, and one request has {}: shorten it to that{}",
        format_grouped(static_cast<int64_t>(capacity)),
        format_grouped(static_cast<int64_t>(length)),
        could_narrow_cache(r) ? ", or take an fp8 KV cache (--kv fp8), which has room for about "
                                "twice as many"
                              : ""));
}

// Measured against measured where both were, else predicted against predicted.
ServeRunnerUp beside(const ServeCandidate& best, const ServeCandidate& other) {
  const bool measured = best.is_timed() && other.is_timed();
  const auto tokens = [&](const ServeCandidate& c) {
    return measured ? c.tokens_per_second() : c.predicted.tokens_per_second;
  };
  const auto latency = [&](const ServeCandidate& c) {
    return measured ? c.latency_seconds() : c.predicted.latency_seconds;
  };
  return {other, measured, tokens(other) / tokens(best) - 1, latency(other) / latency(best) - 1,
          difference(best.plan, other.plan)};
}

}  // namespace

double cost_per_million_tokens(const ServeCandidate& candidate, double gpu_hour_price) {
  constexpr double kSecondsOfHour = 3600, kMillion = 1e6;
  if (candidate.predicted.tokens_per_second <= 0) return 0;
  return gpu_hour_price * candidate.plan.gpus() / kSecondsOfHour * kMillion /
         candidate.predicted.tokens_per_second;
}

double probability_of_meeting(const ServeBudgets& budgets, const ServePrediction& p) {
  constexpr double kNinetyPercent = 1.6449;
  double probability = 1;
  const auto limit = [&](const std::optional<double>& budget, double value,
                         const engine::Interval& interval) {
    if (!budget || interval.low <= 0 || interval.high <= interval.low) return;
    const double sigma = std::log(interval.high / interval.low) / (2 * kNinetyPercent);
    const double z = std::log(*budget / value) / sigma;
    probability = std::min(probability, 0.5 * std::erfc(-z / std::sqrt(2.0)));
  };
  limit(budgets.latency_seconds, value_at(budgets.statistic, p.latency_seconds, p.latency),
        p.latency_interval);
  limit(budgets.ttft_seconds, value_at(budgets.statistic, p.ttft_seconds, p.ttft), p.ttft_interval);
  limit(budgets.tpot_seconds, value_at(budgets.statistic, p.tpot_seconds, p.tpot), p.tpot_interval);
  return probability;
}

ServeRecommendation recommend_serving(const ServeScenario& scenario,
                                      const ServeRestrictions& restrictions,
                                      const ServeBudgets& budgets, double gpu_hour_price,
                                      const MeasureServing& measure) {
  ServeRecommendation r{
      .scenario = scenario,
      .restrictions = restrictions,
      .budgets = budgets,
      .gpu_hour_price = gpu_hour_price,
      .search = search_serving(scenario, restrictions, budgets),
      .best = {},
      .runners_up = {},
      .reasons = {},
      .remedies = {},
      .hints = {},
      .assumptions = serve_assumptions(scenario, weights_of(scenario, restrictions))};
  std::vector<ServeCandidate> ranked = std::move(r.search.best);
  if (measure && !ranked.empty()) {
    r.measurement = measure(r.search.all);
    auto proved = proved_first(budgets, r.search.all);
    if (!proved.empty()) ranked = std::move(proved);
  }
  if (!ranked.empty()) {
    r.best = ranked.front();
    for (size_t i = 1; i < std::min(ranked.size(), kMostRunnersUp + 1); ++i) {
      r.runners_up.push_back(beside(*r.best, ranked[i]));
    }
    r.reasons = reasons(r);
  }
  if (!r.best) add_shorter(r);
  if (r.best && !r.meets_budget()) add_relaxed(r);
  add_formats(r);
  if (r.meets_budget()) return r;
  add_without_restrictions(r);
  add_more_gpus(r);
  add_other_gpus(r);
  return r;
}

ServeCheck check_serving(const ServeScenario& scenario, const ServePlan& plan,
                         const ServeBudgets& budgets, int nearest) {
  ServeCheck check{{plan, {}, 0}, serve_violations(scenario, plan), {}};
  if (check.violations.empty()) {
    check.checked = predict(scenario, budgets, plan);
    if (!check.checked.predicted.fits)
      check.violations.push_back(
          {"AT0201", "the fullest GPU needs " + memory_phrase(check.checked.predicted), {}});
    else if (check.checked.predicted.in_turns)
      check.violations.push_back(no_room_for_all(scenario, plan));
  }
  if (check.violations.empty() || !serve_scenario_violations(scenario).empty()) return check;
  // The best of every kind in a search with the same formats, with the plan's batch and with the
  // best one, by how little changes.
  ServeRestrictions only;
  only.weights = {plan.weights};
  only.kv = {plan.kv};
  std::vector<ServeCandidate> found;
  for (const std::vector<int64_t>& batch : {std::vector<int64_t>{plan.batch}, {}}) {
    only.batch = batch;
    for (ServeCandidate& one : search_serving(scenario, only, budgets).best)
      if (std::none_of(found.begin(), found.end(), [&](const ServeCandidate& known) {
            return known.plan.tp == one.plan.tp && known.plan.ep == one.plan.ep &&
                   known.plan.pp == one.plan.pp;
          }))
        found.push_back(std::move(one));
  }
  const auto distance = [&](const ServePlan& other) {
    const auto apart = [](auto a, auto b) {
      return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
    };
    return apart(other.tp, plan.tp) + apart(other.pp, plan.pp) + apart(other.batch, plan.batch);
  };
  std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
    return distance(a.plan) < distance(b.plan);
  });
  for (ServeCandidate& candidate : found) {
    if (static_cast<int>(check.nearest.size()) == nearest) break;
    check.nearest.push_back(std::move(candidate));
  }
  return check;
}

}  // namespace tuner
