// Serving predictions beside published measurements.
#include "tuner/validate/serve_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "engine/base/json_reader.h"
#include "tuner/validate/statistics.h"

namespace tuner {

using engine::Json;

namespace {

engine::Interval interval_of_metric(ServeMetric metric, const ServePrediction& p) {
  switch (metric) {
    case ServeMetric::latency_seconds:
      return p.latency_interval;
    case ServeMetric::ttft_seconds:
      return p.ttft_interval;
    case ServeMetric::tpot_seconds:
      return p.tpot_interval;
    case ServeMetric::tokens_per_second_per_gpu:
      return p.throughput_interval;
    case ServeMetric::fits:
      break;
  }
  return {};
}

std::string kind_of(const PredictedServe& row) {
  return fmt::format("{}, {}{}", name_of(row.metric), name_of(row.row->scenario.workload.arrival),
                     row.row->is_mixture() ? ", experts" : "");
}

// One configuration of a group that competes: means over its repeats.
struct Candidate {
  double latency = 0, predicted_latency = 0;
  double throughput = 0, predicted_throughput = 0;
  int repeats = 0;
};

std::string group_key(const ServeRow& row) {
  const ServeWorkload& work = row.scenario.workload;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", row.source, row.model, row.gpu,
                     row.scenario.stack.release_scope(), work.input, work.output,
                     name_of(work.arrival), name_of(row.plan.weights), name_of(row.plan.kv));
}

// By group and configuration, of rows whose latency is known.
std::map<std::string, std::map<std::string, Candidate>> candidates(
    const std::vector<PredictedServe>& rows) {
  std::map<std::string, std::map<std::string, Candidate>> groups;
  for (const PredictedServe& row : rows) {
    if (row.metric != ServeMetric::latency_seconds) continue;
    const ServeWorkload& work = row.row->scenario.workload;
    const ServePlan& plan = row.row->plan;
    const bool closed = work.arrival == Arrival::closed_loop;
    const double together = closed ? work.concurrency : static_cast<double>(plan.batch);
    const double tokens = together * static_cast<double>(work.output) / plan.gpus();
    Candidate& c = groups[group_key(*row.row)]
                         [fmt::format("{}|{}|{}|{}", plan.tp, plan.pp, plan.ep, together)];
    c.latency += row.measured;
    c.predicted_latency += row.predicted;
    c.throughput += tokens / row.measured;
    c.predicted_throughput += tokens / row.predicted;
    ++c.repeats;
  }
  for (auto& [key, list] : groups)
    for (auto& [name, c] : list)
      for (double* sum : {&c.latency, &c.predicted_latency, &c.throughput, &c.predicted_throughput})
        *sum /= c.repeats;
  return groups;
}

double regret_of_pick(const std::vector<Candidate>& list) {
  std::vector<double> latencies;
  for (const Candidate& c : list) latencies.push_back(c.latency);
  const double budget = median(latencies);
  const Candidate* pick = nullptr;
  double best = 0;
  for (const Candidate& c : list) {
    if (c.latency <= budget) best = std::max(best, c.throughput);
    const auto value = [&](const Candidate& x) {
      return x.predicted_latency <= budget ? x.predicted_throughput : -x.predicted_latency;
    };
    if (!pick || value(c) > value(*pick)) pick = &c;
  }
  if (pick->latency > budget) return pick->latency / budget - 1;
  return best / pick->throughput - 1;
}

Json row_json(const PredictedServe& row) {
  return {{"id", row.row->id},
          {"source", row.row->source},
          {"gpu", row.row->gpu},
          {"stack", row.row->stack},
          {"metric", name_of(row.metric)},
          {"arrival", name_of(row.row->scenario.workload.arrival)},
          {"measured", row.measured},
          {"predicted", row.predicted},
          {"low", row.low},
          {"high", row.high},
          {"error", row.error()},
          {"assumed", row.row->assumed}};
}

}  // namespace

double PredictedServe::error() const {
  return metric == ServeMetric::fits ? predicted - measured : predicted / measured - 1;
}

std::optional<Scored> PredictedServe::scored() const {
  if (metric == ServeMetric::fits) return std::nullopt;
  return Scored{error(), measured >= low && measured <= high};
}

std::vector<PredictedServe> predict_serve_row(const ServeRow& row) {
  const ServePrediction prediction = predict_serving(row.scenario, row.plan);
  std::vector<PredictedServe> list;
  for (const auto& [metric, measured] : row.measured) {
    PredictedServe one{&row, metric, measured, value_of(metric, row, prediction), 0, 0};
    const engine::Interval interval = interval_of_metric(metric, prediction);
    // Tokens of the input count on both sides of the interval alike.
    const double scale = metric == ServeMetric::tokens_per_second_per_gpu
                             ? one.predicted / prediction.tokens_per_second
                             : 1;
    one.low = metric == ServeMetric::fits ? one.predicted : interval.low * scale;
    one.high = metric == ServeMetric::fits ? one.predicted : interval.high * scale;
    list.push_back(one);
  }
  return list;
}

Summaries summarize_by_kind(const std::vector<PredictedServe>& rows) {
  return summaries_by(rows, kind_of);
}

ServeRanking rank_serving(const std::vector<PredictedServe>& rows) {
  ServeRanking ranking;
  std::vector<double> regrets;
  for (const auto& [key, named] : candidates(rows)) {
    if (named.size() < 3) continue;
    std::vector<Candidate> list;
    std::vector<double> measured, predicted;
    for (const auto& [name, candidate] : named) {
      list.push_back(candidate);
      measured.push_back(candidate.throughput);
      predicted.push_back(candidate.predicted_throughput);
    }
    ++ranking.groups;
    ranking.mean_spearman += spearman(predicted, measured);
    regrets.push_back(regret_of_pick(list));
    ranking.mean_regret += regrets.back();
  }
  if (ranking.groups > 0) {
    ranking.mean_spearman /= ranking.groups;
    ranking.mean_regret /= ranking.groups;
    ranking.median_regret = median(regrets);
  }
  return ranking;
}

FitSummary summarize_fits(const std::vector<PredictedServe>& rows) {
  FitSummary summary;
  for (const PredictedServe& row : rows)
    if (row.metric == ServeMetric::fits) summary.add(row.measured > 0, row.predicted > 0);
  return summary;
}

ServeValidation validate_serving(ServeRows rows) {
  ServeValidation validation;
  validation.read = std::move(rows);
  for (const ServeRow& row : validation.read.rows)
    for (PredictedServe& one : predict_serve_row(row)) validation.predicted.push_back(one);
  return validation;
}

Json serve_validation_to_json(const ServeValidation& v) {
  Json rows = Json::array();
  std::vector<const PredictedServe*> all;
  for (const PredictedServe& row : v.predicted) {
    rows.push_back(row_json(row));
    all.push_back(&row);
  }
  Json skipped = Json::array();
  for (const SkippedRow& row : v.read.skipped)
    skipped.push_back({{"id", row.id}, {"reason", row.reason}});
  const auto by = [&](auto key) { return summaries_json(summaries_by(v.predicted, key)); };
  const ServeRanking ranking = rank_serving(v.predicted);
  return {{"schema", "autotune.validate/1"},
          {"rows", std::move(rows)},
          {"summary",
           {{"all", summary_json(summarize(all))},
            {"by_source", by([](const auto& r) { return r.row->source; })},
            {"by_gpu", by([](const auto& r) { return r.row->gpu; })},
            {"by_stack", by([](const auto& r) { return r.row->stack; })},
            {"by_metric", by([](const auto& r) { return name_of(r.metric); })},
            {"by_metric_and_arrival", summaries_json(summarize_by_kind(v.predicted))}}},
          {"fits", fits_json(summarize_fits(v.predicted))},
          {"ranking",
           {{"groups", ranking.groups},
            {"mean_spearman", ranking.mean_spearman},
            {"mean_regret", ranking.mean_regret},
            {"median_regret", ranking.median_regret}}},
          {"skipped", std::move(skipped)}};
}

}  // namespace tuner
