// Fit and cross-validation of the serving model.
#include "tuner/validate/serve_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/validate/constants_fit.h"
#include "tuner/validate/statistics.h"

namespace tuner {

using engine::Json;

namespace {

constexpr unsigned kFolds = 8;

// Mixtures come after the dense models.
using Group = std::pair<bool, std::string>;

Group group_of(const ServeRow& row) {
  return {row.is_mixture(),
          row.scenario.stack.release_scope() + "|" + row.source + "|" + row.model + "|" + row.gpu};
}

std::string plan_of(const ServeRow& row) {
  const ServePlan& plan = row.plan;
  return fmt::format("{}|{}|{}|{}|{}|{}", group_of(row).second, name_of(plan.weights),
                     name_of(plan.kv), plan.tp, plan.ep, plan.pp);
}

// The fold of every group. The groups of one release are dealt out in turn, so that no fold takes
// all of them where there are several.
template <class Key>
std::map<Key, unsigned> folds_of(const std::vector<ServeRow>& rows,
                                 Key (*key_of)(const ServeRow&)) {
  std::map<Key, unsigned> folds;
  for (const ServeRow& row : rows) folds[key_of(row)] = 0;
  unsigned next = 0;
  for (auto& [key, fold] : folds) fold = next++ % kFolds;
  return folds;
}

// What a row tells the fit: latency, or throughput where no latency is known; the time to first
// token under load depends on the client as much as on the engine and weighs less.
std::vector<std::pair<ServeMetric, double>> fitted_metrics(const ServeRow& row) {
  constexpr double kLoadedFirstToken = 0.3;
  const auto has = [&](ServeMetric metric) {
    return std::any_of(row.measured.begin(), row.measured.end(),
                       [&](const auto& one) { return one.first == metric; });
  };
  std::vector<std::pair<ServeMetric, double>> list;
  if (has(ServeMetric::latency_seconds))
    list.emplace_back(ServeMetric::latency_seconds, 1);
  else if (has(ServeMetric::tokens_per_second_per_gpu))
    list.emplace_back(ServeMetric::tokens_per_second_per_gpu, 1);
  if (has(ServeMetric::tpot_seconds)) list.emplace_back(ServeMetric::tpot_seconds, 1);
  if (has(ServeMetric::ttft_seconds))
    list.emplace_back(
        ServeMetric::ttft_seconds,
        row.scenario.workload.arrival == Arrival::static_batch ? 1 : kLoadedFirstToken);
  return list;
}

double measured_of(const ServeRow& row, ServeMetric metric) {
  for (const auto& [name, value] : row.measured)
    if (name == metric) return value;
  return 0;
}

// A row as the fit sees it. Many rows of one machine and source share what is special about them.
FitRun run_of(const ServeRow& row, const ServeRatesTable& table, int rows_alike) {
  constexpr double kAlike = 60;
  FitRun run;
  run.applicable = table.applicable(row.scenario.cluster, row.scenario.stack, row.plan.weights,
                                    row.is_mixture());
  const double weight = 1 / std::sqrt(1 + rows_alike / kAlike);
  const auto metrics = fitted_metrics(row);
  for (const auto& [metric, share] : metrics) run.weights.push_back(share * weight);
  // The scenario is copied: its rates change while fitting.
  ServeScenario own = row.scenario;
  use_rates(own, table);
  run.log_errors = [&row, metrics,
                    scenario = std::move(own)](std::span<const double> constants) mutable {
    scenario.rates[static_cast<size_t>(row.plan.weights)] = ServeRatesTable::rates_of(constants);
    const ServePrediction prediction = predict_serving(scenario, row.plan);
    std::vector<double> errors;
    for (const auto& [metric, share] : metrics)
      errors.push_back(std::log(value_of(metric, row, prediction) / measured_of(row, metric)));
    return errors;
  };
  return run;
}

bool is_timed(const ServeRow& row) { return !fitted_metrics(row).empty(); }

// All rows, and which of them a fit may use. Mixtures of experts have constants of their own, which
// are fitted last; they set none that dense models have.
class Runs {
 public:
  explicit Runs(const std::vector<ServeRow>& rows) : rows_(rows) {
    for (const ServeRow& row : rows) ++alike_[row.source + "|" + row.gpu];
  }

  template <class Keep>
  void fit(ServeRatesTable& table, Keep keep, int iterations) const {
    fit_kind(table, keep, iterations, false);
    fit_mixtures(table, keep, iterations);
  }

  // The constants of routed experts alone.
  template <class Keep>
  void fit_mixtures(ServeRatesTable& table, Keep keep, int iterations) const {
    fit_kind(table, keep, iterations, true);
  }

 private:
  template <class Keep>
  void fit_kind(ServeRatesTable& table, Keep keep, int iterations, bool mixtures) const {
    std::vector<FitRun> runs;
    for (const ServeRow& row : rows_)
      if (is_timed(row) && row.is_mixture() == mixtures && keep(row))
        runs.push_back(run_of(row, table, alike_.at(row.source + "|" + row.gpu)));
    std::vector<const FitRun*> chosen;
    for (const FitRun& run : runs) chosen.push_back(&run);
    FitOptions options;
    options.most_iterations = iterations;
    options.moves = [=](int constant) {
      return ServeRatesTable::is_of_experts(constant) == mixtures;
    };
    fit_constants(table, chosen, options);
  }

  const std::vector<ServeRow>& rows_;
  std::map<std::string, int> alike_;
};

void predict_with(const ServeRow& row, const ServeRatesTable& table,
                  std::vector<PredictedServe>& out) {
  ServeRow copy = row;
  use_rates(copy.scenario, table);
  for (PredictedServe& one : predict_serve_row(copy)) {
    one.row = &row;
    out.push_back(one);
  }
}

// Factors of stacks and releases that no row of the fit has are as before any fit.
void forget_unseen(ServeRatesTable& table, const std::vector<ServeRow>& rows,
                   const std::string& left_out) {
  std::set<std::string> seen;
  for (const ServeRow& row : rows)
    if (row.source != left_out) {
      seen.insert(row.scenario.stack.scope());
      seen.insert(row.scenario.stack.release_scope());
    }
  for (size_t i = 0; i < table.entries().size(); ++i)
    if (table.entries()[i].is_factor && !seen.contains(table.entries()[i].scope))
      table.set_value(i, table.entries()[i].prior);
}

// The constant whose sigma covers a metric.
std::string sigma_name(const PredictedServe& row) {
  const Arrival arrival = row.row->scenario.workload.arrival;
  const bool loaded = arrival != Arrival::static_batch && arrival != Arrival::isolated;
  switch (row.metric) {
    case ServeMetric::latency_seconds:
      return loaded ? "loaded_latency_sigma" : "latency_sigma";
    case ServeMetric::ttft_seconds:
      return loaded ? "loaded_ttft_sigma" : "ttft_sigma";
    case ServeMetric::tpot_seconds:
      return "tpot_sigma";
    case ServeMetric::tokens_per_second_per_gpu:
      return arrival == Arrival::saturated ? "throughput_sigma"
             : loaded                      ? "loaded_latency_sigma"
                                           : "latency_sigma";
    case ServeMetric::fits:
      break;
  }
  return {};
}

// Sigmas whose 90 % intervals cover 90 % of the rows left out: by release where it has enough rows,
// by default for what is unknown, and of mixtures by themselves.
void set_sigmas(ServeRatesTable& table, const std::vector<PredictedServe>& left_out) {
  constexpr size_t kEnough = 20;
  constexpr double kNinetyPercent = 1.6449;
  std::map<std::pair<std::string, std::string>, std::vector<double>> errors;
  for (const PredictedServe& row : left_out) {
    if (row.metric == ServeMetric::fits) continue;
    const double error = std::abs(std::log(row.predicted / row.measured));
    if (row.row->is_mixture()) {
      errors[{sigma_name(row), "mixture"}].push_back(error);
      continue;
    }
    errors[{sigma_name(row), row.row->scenario.stack.release_scope()}].push_back(error);
    errors[{sigma_name(row), "default"}].push_back(error);
  }
  const auto& names = ServeRatesTable::constant_names();
  for (size_t i = 0; i < table.entries().size(); ++i) {
    const ScopedRate& entry = table.entries()[i];
    const std::string& name = names[static_cast<size_t>(entry.constant)];
    if (!name.ends_with("_sigma")) continue;
    const auto& own = errors[{name, entry.scope}];
    const auto& all = errors[{name, "default"}];
    if (own.size() >= kEnough)
      table.set_value(i, quantile(own, 0.9) / kNinetyPercent);
    else if (all.size() >= kEnough)
      table.set_value(i, quantile(all, 0.9) / kNinetyPercent);
  }
}

Json kinds_json(const std::vector<PredictedServe>& rows) {
  Json json = Json::object();
  for (const auto& [kind, s] : summarize_by_kind(rows))
    json[kind] = {{"n", s.n}, {"mape", s.mape}, {"median", s.median}, {"bias", s.bias}};
  return json;
}

}  // namespace

ServeFitAccount fit_and_validate_serving(const ServeRatesTable& start,
                                         const std::vector<ServeRow>& rows,
                                         const std::function<void(int done, int total)>& progress) {
  constexpr int kIterations = 15, kMoreIterations = 5;
  std::set<std::string> sources;
  for (const ServeRow& row : rows)
    if (is_timed(row)) sources.insert(row.source);
  const int total = 1 + static_cast<int>(2 * kFolds) + static_cast<int>(sources.size());
  int done = 0;

  const Runs runs(rows);
  ServeFitAccount account{start, {}, {}};
  runs.fit(
      account.table, [](const ServeRow&) { return true; }, kIterations);
  progress(++done, total);
  for (const ServeRow& row : rows) predict_with(row, account.table, account.in_sample);

  // Fits without a part of the rows begin where the fit of all ended: the minimum does not depend
  // on the beginning.
  const auto folds = folds_of(rows, group_of);
  for (unsigned fold = 0; fold < kFolds; ++fold) {
    const auto left_out = [&](const ServeRow& row) { return folds.at(group_of(row)) == fold; };
    ServeRatesTable table = account.table;
    runs.fit(
        table, [&](const ServeRow& row) { return !left_out(row); }, kMoreIterations);
    for (const ServeRow& row : rows)
      if (left_out(row)) predict_with(row, table, account.cross.by_group);
    progress(++done, total);
  }
  std::vector<ServeRow> mixtures;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(mixtures),
               [](const ServeRow& row) { return row.is_mixture(); });
  const auto plans = folds_of(mixtures, plan_of);
  for (unsigned fold = 0; fold < kFolds; ++fold) {
    const auto left_out = [&](const ServeRow& row) {
      return row.is_mixture() && plans.at(plan_of(row)) == fold;
    };
    ServeRatesTable table = account.table;
    runs.fit_mixtures(
        table, [&](const ServeRow& row) { return !left_out(row); }, kMoreIterations);
    for (const ServeRow& row : rows)
      if (left_out(row)) predict_with(row, table, account.cross.by_plan);
    progress(++done, total);
  }
  for (const std::string& source : sources) {
    ServeRatesTable table = account.table;
    forget_unseen(table, rows, source);
    runs.fit(
        table, [&](const ServeRow& row) { return row.source != source; }, kMoreIterations);
    for (const ServeRow& row : rows)
      if (row.source == source) predict_with(row, table, account.cross.by_source);
    progress(++done, total);
  }
  set_sigmas(account.table, account.cross.by_group);
  return account;
}

Json serve_fit_to_json(const ServeFitAccount& account, const std::string& command) {
  std::set<const ServeRow*> rows;
  for (const PredictedServe& one : account.in_sample) rows.insert(one.row);
  return {{"command", command},
          {"rows", rows.size()},
          {"errors", "of predicted / measured - 1: mean and median of the size, median signed"},
          {"in_sample", kinds_json(account.in_sample)},
          {"left_out_groups_of_source_model_gpu", kinds_json(account.cross.by_group)},
          {"left_out_plans_of_mixtures", kinds_json(account.cross.by_plan)},
          {"left_out_sources", kinds_json(account.cross.by_source)}};
}

}  // namespace tuner
