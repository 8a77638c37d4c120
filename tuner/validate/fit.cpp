// Least squares with priors over the constants of the cost model.
#include "tuner/validate/fit.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/errors.h"
#include "tuner/model/cost_model.h"
#include "tuner/validate/constants_fit.h"
#include "tuner/validate/statistics.h"

namespace tuner {

namespace {

// A row as the fit sees it.
FitRun run_of(const PublishedRow& row, const RatesTable& table, double weight) {
  const Scenario& s = row.scenario;
  FitRun run;
  run.applicable = table.applicable(s.cluster, s.stack, s.workload.precision);
  run.weights = {weight};
  // The scenario is copied: its rates change while fitting.
  run.log_errors = [&row, scenario = s](std::span<const double> constants) mutable {
    scenario.rates = RatesTable::rates_of(constants);
    const CostModel cost(scenario);
    double fastest = 0;
    for (const engine::ParallelPlan& plan : row.plans) {
      const double seconds = cost.step(cost.micro_batch_cost(plan), plan).total();
      if (fastest == 0 || seconds < fastest) fastest = seconds;
    }
    return std::vector<double>{std::log(fastest / row.measured)};
  };
  return run;
}

void use_rates(PublishedRow& row, const RatesTable& table) {
  const Scenario& s = row.scenario;
  row.scenario.rates = table.resolve(s.cluster, s.stack, s.workload.precision);
}

// A stack that counts as unknown has the default constants.
RatesTable without_stack(RatesTable table, const std::string& stack) {
  for (size_t i = 0; i < table.entries().size(); ++i)
    if (table.entries()[i].scope == stack) {
      const int constant = table.entries()[i].constant;
      for (const ScopedRate& other : table.entries())
        if (other.constant == constant && other.scope == "default") table.set_value(i, other.value);
    }
  return table;
}

std::vector<const PublishedRow*> pointers(const std::vector<PublishedRow>& rows) {
  std::vector<const PublishedRow*> list;
  for (const PublishedRow& row : rows)
    if (row.metric == Metric::step_seconds) list.push_back(&row);
  return list;
}

std::string format_of(const PublishedRow& row) {
  return format_scope(row.scenario.cluster, row.scenario.workload.precision);
}

SeenFeatures features_of(const PublishedRow& row, const engine::ParallelPlan& plan) {
  const Scenario& s = row.scenario;
  return seen_features(s.model, s.workload, s.cluster, plan);
}

RatesTable::SeenByStack seen_in(const std::vector<const PublishedRow*>& rows) {
  RatesTable::SeenByStack seen;
  for (const PublishedRow* row : rows)
    if (const std::string& stack = row->scenario.stack.rates; !stack.empty())
      seen[stack].add(format_of(*row), features_of(*row, row->plans.front()));
  return seen;
}

// Rows predicted by a table that was fitted to `kept`.
void predict_left_out(const std::vector<PublishedRow*>& rows, const RatesTable& table,
                      const std::vector<const PublishedRow*>& kept, std::vector<LeftOutRow>& out) {
  const RatesTable::SeenByStack seen = seen_in(kept);
  for (PublishedRow* row : rows) {
    use_rates(*row, table);
    LeftOutRow left{predict_row(*row), std::nullopt};
    const auto known = seen.find(row->scenario.stack.rates);
    if (known != seen.end() && known->second.formats.contains(format_of(*row)))
      left.distance = known->second.distance(features_of(*row, left.predicted.plan));
    out.push_back(std::move(left));
  }
}

// Three rows of a source that differ: the first, and those that follow at thirds of the list.
std::vector<PublishedRow*> take_three(std::vector<PublishedRow*>& rows) {
  const std::vector<size_t> places = {0, rows.size() / 3, 2 * rows.size() / 3};
  std::vector<PublishedRow*> three;
  for (size_t i = places.size(); i-- > 0;) {
    three.push_back(rows[places[i]]);
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(places[i]));
  }
  return three;
}

double log_error(const LeftOutRow& row) {
  return std::abs(std::log(row.predicted.predicted / row.predicted.row->measured));
}

constexpr double kTwoSided90 = 1.6449;

// The value that 90 % of further ones stay below, one more drawn like these included (Vovk et al.
// 2005, conformal prediction).
double covering_quantile(std::vector<double> values) {
  const double n = static_cast<double>(values.size());
  return quantile(std::move(values), std::min(1.0, 0.9 * (n + 1) / n));
}

// The rest of a standard deviation of which a part is explained.
double beyond(double whole, double part) {
  return whole > part ? std::sqrt(whole * whole - part * part) : 0;
}

// What every stack needs, and by how much more its rows beyond the ranges need than those within.
Uncertainty uncertainty_of(const std::vector<const LeftOutRow*>& by_shape,
                           const std::vector<const LeftOutRow*>& by_source) {
  constexpr size_t kEnough = 8;  // rows from which a stack has its own
  Uncertainty found;
  std::vector<double> unknown, growth;
  for (const LeftOutRow* row : by_source) unknown.push_back(log_error(*row) / kTwoSided90);
  if (!unknown.empty()) found.unknown_stack = covering_quantile(unknown);
  std::map<std::string, std::vector<const LeftOutRow*>> stacks;
  for (const LeftOutRow* row : by_shape)
    if (row->distance) stacks[row->predicted.row->scenario.stack.rates].push_back(row);
  for (const auto& [stack, rows] : stacks) {
    std::vector<double> near;
    for (const LeftOutRow* row : rows)
      if (*row->distance == 0) near.push_back(log_error(*row) / kTwoSided90);
    if (near.size() < kEnough) continue;
    const double base = covering_quantile(near);
    for (const LeftOutRow* row : rows)
      if (*row->distance > 0)
        growth.push_back(beyond(log_error(*row) / kTwoSided90, base) / *row->distance);
  }
  if (!growth.empty()) found.distance = covering_quantile(growth);
  for (const auto& [stack, rows] : stacks) {
    std::vector<double> own;
    for (const LeftOutRow* row : rows) own.push_back(log_error(*row) / kTwoSided90);
    if (own.size() >= kEnough) found.by_stack[stack] = covering_quantile(own);
  }
  return found;
}

template <class Keep>
std::vector<const LeftOutRow*> select(const std::vector<LeftOutRow>& rows, Keep keep) {
  std::vector<const LeftOutRow*> list;
  for (const LeftOutRow& row : rows)
    if (keep(*row.predicted.row)) list.push_back(&row);
  return list;
}

// Every row left out, with the interval that the rows of other shapes give it.
std::vector<PredictedRow> with_intervals(const CrossValidation& cross) {
  std::map<std::string, Uncertainty> without;
  std::vector<PredictedRow> rows;
  for (const LeftOutRow& left : cross.by_shape) {
    const PublishedRow& row = *left.predicted.row;
    auto found = without.find(row.shape);
    if (found == without.end()) {
      const auto other = [&](const PublishedRow& r) { return r.shape != row.shape; };
      found = without
                  .emplace(row.shape, uncertainty_of(select(cross.by_shape, other),
                                                     select(cross.by_source, other)))
                  .first;
    }
    rows.push_back(left.predicted);
    const engine::Interval interval = interval_of(
        rows.back().predicted, found->second.sigma(row.scenario.stack.rates, left.distance));
    rows.back().low = interval.low;
    rows.back().high = interval.high;
  }
  return rows;
}

void set_uncertainty(RatesTable& table, const Uncertainty& found) {
  const auto& names = RatesTable::constant_names();
  for (size_t i = 0; i < table.entries().size(); ++i) {
    const ScopedRate& entry = table.entries()[i];
    const std::string& name = names[static_cast<size_t>(entry.constant)];
    if (name == "distance_sigma" && found.distance > 0) table.set_value(i, found.distance);
    if (name != "residual_sigma") continue;
    if (entry.scope == "default") {
      if (found.unknown_stack > 0) table.set_value(i, found.unknown_stack);
    } else if (const auto own = found.by_stack.find(entry.scope); own != found.by_stack.end()) {
      table.set_value(i, own->second);
    }
  }
}

}  // namespace

double Uncertainty::sigma(const std::string& stack, std::optional<double> distance_of_row) const {
  const auto own = by_stack.find(stack);
  if (!distance_of_row || own == by_stack.end()) return unknown_stack;
  return std::hypot(own->second, distance * *distance_of_row);
}

RatesTable fit_rates(const RatesTable& start, const std::vector<const PublishedRow*>& rows) {
  engine::expect(!rows.empty(), "rows to fit");
  std::map<std::string, int> source_rows;
  for (const PublishedRow* row : rows) ++source_rows[row->source];
  std::vector<FitRun> runs;
  std::vector<const FitRun*> chosen;
  for (const PublishedRow* row : rows)
    runs.push_back(run_of(*row, start, 1 / std::sqrt(double(source_rows[row->source]))));
  for (const FitRun& run : runs) chosen.push_back(&run);
  RatesTable table = start;
  fit_constants(table, chosen,
                {.soft = 0.06, .most_iterations = 30, .difference = 1e-3, .converged = 1e-7});
  return table;
}

FitAccount fit_and_validate(const RatesTable& start, std::vector<PublishedRow>& rows,
                            const FitProgress& progress) {
  std::map<std::string, std::vector<PublishedRow*>> shapes, sources;
  for (PublishedRow& row : rows)
    if (row.metric == Metric::step_seconds) {
      shapes[row.shape].push_back(&row);
      sources[row.source].push_back(&row);
    }
  const int total = 1 + static_cast<int>(shapes.size() + sources.size());
  int done = 0;
  auto report = [&] { progress(++done, total); };

  const std::vector<const PublishedRow*> all = pointers(rows);
  FitAccount account{fit_rates(start, all), seen_in(all), {}, {}, {}};
  report();
  for (PublishedRow& row : rows) use_rates(row, account.table);
  for (const PublishedRow* row : all) account.in_sample.push_back(predict_row(*row));
  // Fits without a part of the rows begin where the fit of all ended: the minimum does not depend
  // on the beginning.
  const auto without = [&](auto left_out) {
    std::vector<const PublishedRow*> kept;
    for (const PublishedRow* row : all)
      if (!left_out(*row)) kept.push_back(row);
    return kept;
  };
  for (const auto& [shape, members] : shapes) {
    const auto kept = without([&](const PublishedRow& row) { return row.shape == shape; });
    const RatesTable table = kept.empty() ? start : fit_rates(account.table, kept);
    predict_left_out(members, table, kept, account.cross.by_shape);
    report();
  }
  for (const auto& [source, members] : sources) {
    const auto kept = without([&](const PublishedRow& row) { return row.source == source; });
    RatesTable table = without_stack(kept.empty() ? start : fit_rates(account.table, kept),
                                     members.front()->scenario.stack.rates);
    predict_left_out(members, table, kept, account.cross.by_source);
    constexpr size_t kFewest = 5;  // rows of a source from which three can be spared
    if (members.size() >= kFewest) {
      std::vector<PublishedRow*> rest = members;
      const std::vector<PublishedRow*> three = take_three(rest);
      table.take_values_as_priors();
      predict_left_out(rest, fit_rates(table, {three.begin(), three.end()}), kept,
                       account.cross.calibrated);
    }
    report();
  }
  const auto every = [](const PublishedRow&) { return true; };
  set_uncertainty(account.table, uncertainty_of(select(account.cross.by_shape, every),
                                                select(account.cross.by_source, every)));
  account.table.set_seen(account.seen);
  account.covered = with_intervals(account.cross);
  for (PublishedRow& row : rows) use_rates(row, account.table);
  return account;
}

std::vector<PredictedRow> predictions_of(const std::vector<LeftOutRow>& rows) {
  std::vector<PredictedRow> list;
  for (const LeftOutRow& row : rows) list.push_back(row.predicted);
  return list;
}

ErrorSummary summarize_sources_alike(const std::vector<PredictedRow>& rows) {
  const Summaries sources =
      summaries_by(rows, [](const PredictedRow& row) { return row.row->source; });
  ErrorSummary mean;
  for (const auto& [source, one] : sources) {
    mean.n += one.n;
    mean.mape += one.mape;
    mean.median += one.median;
    mean.bias += one.bias;
    mean.coverage_90 += one.coverage_90;
  }
  const double n = std::max<double>(1, static_cast<double>(sources.size()));
  mean.mape /= n;
  mean.median /= n;
  mean.bias /= n;
  mean.coverage_90 /= n;
  return mean;
}

}  // namespace tuner
