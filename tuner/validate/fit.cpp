// Least squares with priors over the constants of the cost model.
#include "tuner/validate/fit.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "engine/base/errors.h"
#include "tuner/model/cost_model.h"
#include "tuner/validate/least_squares.h"
#include "tuner/validate/statistics.h"

namespace tuner {

namespace {

constexpr double kSoft = 0.06;  // error from which a row pulls like its absolute value
constexpr double kDifference = 1e-3;
constexpr int kMostIterations = 30;

// A row with the rates entries that apply to it and the plan that counts.
struct FitRow {
  const PublishedRow* row;
  std::unique_ptr<Scenario> scenario;  // its rates change while fitting; models keep its address
  engine::ParallelPlan plan;
  std::vector<size_t> applicable;
  double weight;
};

// An entry as the unbounded number that the fit moves.
double to_free(const RatesTable& table, const ScopedRate& entry, double value) {
  if (!table.is_share(entry.constant)) return std::log(value);
  return std::log(value / (1 - value));
}
double from_free(const RatesTable& table, const ScopedRate& entry, double free) {
  return table.is_share(entry.constant) ? 1 / (1 + std::exp(-free)) : std::exp(free);
}

class Problem {
 public:
  Problem(const RatesTable& start, const std::vector<const PublishedRow*>& rows) : table_(start) {
    std::map<std::string, int> source_rows;
    for (const PublishedRow* row : rows) ++source_rows[row->source];
    std::set<size_t> used;
    for (const PublishedRow* row : rows) {
      const Scenario& s = row->scenario;
      FitRow fit{row, std::make_unique<Scenario>(s), predict_row(*row).plan,
                 table_.applicable(s.cluster, s.stack, s.workload.precision),
                 1 / std::sqrt(static_cast<double>(source_rows[row->source]))};
      for (const size_t entry : fit.applicable)
        if (is_free(table_.entries()[entry])) used.insert(entry);
      rows_.push_back(std::move(fit));
    }
    free_.assign(used.begin(), used.end());
  }

  RatesTable solve() {
    double cost = this->cost(residuals());
    double damping = 1e-3;
    for (int iteration = 0; iteration < kMostIterations; ++iteration) {
      const NormalEquations equations = linearized();
      bool better = false;
      for (int attempt = 0; attempt < 8 && !better; ++attempt, damping *= 4) {
        const std::vector<double> step = equations.solve(damping);
        const std::vector<double> before = values();
        move(step);
        const double moved = this->cost(residuals());
        better = moved < cost;
        if (!better) {
          restore(before);
          continue;
        }
        const bool converged = cost - moved < 1e-7 * cost;
        cost = moved;
        damping = std::max(1e-9, damping / 16);
        if (converged) return table_;
      }
      if (!better) break;
    }
    return table_;
  }

 private:
  bool is_free(const ScopedRate& entry) const {
    return table_.sigma(entry.constant) > 0 && entry.prior > 0;
  }

  double log_error(const FitRow& fit) const {
    fit.scenario->rates = table_.resolve(fit.applicable);
    const CostModel cost(*fit.scenario);
    return std::log(cost.step(cost.micro_batch_cost(fit.plan), fit.plan).total() /
                    fit.row->measured);
  }

  std::vector<double> residuals() const {
    std::vector<double> errors;
    errors.reserve(rows_.size());
    for (const FitRow& fit : rows_) errors.push_back(log_error(fit));
    return errors;
  }

  double prior_distance(size_t entry) const {
    const ScopedRate& e = table_.entries()[entry];
    return (to_free(table_, e, e.value) - to_free(table_, e, e.prior)) / table_.sigma(e.constant);
  }

  double cost(const std::vector<double>& errors) const {
    double sum = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const double z = errors[i] / kSoft;
      sum += rows_[i].weight * 2 * (std::sqrt(1 + z * z) - 1);
    }
    for (const size_t entry : free_) sum += prior_distance(entry) * prior_distance(entry);
    return sum;
  }

  // Each row's derivative by every entry that applies to it.
  NormalEquations linearized() {
    NormalEquations equations(free_.size());
    std::map<size_t, size_t> column;
    for (size_t i = 0; i < free_.size(); ++i) column[free_[i]] = i;
    for (const FitRow& fit : rows_) {
      const double error = log_error(fit);
      std::vector<std::pair<size_t, double>> slopes;
      for (const size_t entry : fit.applicable) {
        const auto found = column.find(entry);
        if (found == column.end()) continue;
        const ScopedRate saved = table_.entries()[entry];
        table_.set_value(
            entry, from_free(table_, saved, to_free(table_, saved, saved.value) + kDifference));
        slopes.emplace_back(found->second, (log_error(fit) - error) / kDifference);
        table_.set_value(entry, saved.value);
      }
      const double z = error / kSoft;
      const double weight = fit.weight / std::sqrt(1 + z * z) / (kSoft * kSoft);
      equations.add(slopes, error, weight);
    }
    for (size_t i = 0; i < free_.size(); ++i) {
      const double sigma = table_.sigma(table_.entries()[free_[i]].constant);
      equations.add({{i, 1.0}}, prior_distance(free_[i]) * sigma, 1 / (sigma * sigma));
    }
    return equations;
  }

  std::vector<double> values() const {
    std::vector<double> list;
    for (const size_t entry : free_) list.push_back(table_.entries()[entry].value);
    return list;
  }
  void restore(const std::vector<double>& list) {
    for (size_t i = 0; i < free_.size(); ++i) table_.set_value(free_[i], list[i]);
  }
  void move(const std::vector<double>& step) {
    constexpr double kLongest = 0.7;  // a factor of two at most in one iteration
    for (size_t i = 0; i < free_.size(); ++i) {
      const ScopedRate& e = table_.entries()[free_[i]];
      const double free = to_free(table_, e, e.value) + std::clamp(step[i], -kLongest, kLongest);
      table_.set_value(free_[i], from_free(table_, e, free));
    }
  }

  RatesTable table_;
  std::vector<FitRow> rows_;
  std::vector<size_t> free_;
};

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

// The sigma whose 90 % interval covers 90 % of the rows left out.
double covering_sigma(const std::vector<double>& log_errors) {
  return quantile(log_errors, 0.9) / 1.6449;
}

void set_sigmas(RatesTable& table, const CrossValidation& cross) {
  std::map<std::string, std::vector<double>> by_stack;
  std::vector<double> unknown;
  for (const PredictedRow& row : cross.by_shape)
    by_stack[row.row->scenario.stack.rates].push_back(
        std::abs(std::log(row.predicted / row.row->measured)));
  for (const PredictedRow& row : cross.by_source)
    unknown.push_back(std::abs(std::log(row.predicted / row.row->measured)));
  const auto& names = RatesTable::constant_names();
  const auto sigma =
      static_cast<int>(std::find(names.begin(), names.end(), "residual_sigma") - names.begin());
  constexpr size_t kEnough = 8;  // rows from which a stack has its own
  for (size_t i = 0; i < table.entries().size(); ++i) {
    const ScopedRate& entry = table.entries()[i];
    if (entry.constant != sigma) continue;
    if (entry.scope == "default" && !unknown.empty())
      table.set_value(i, covering_sigma(unknown));
    else if (by_stack[entry.scope].size() >= kEnough)
      table.set_value(i, covering_sigma(by_stack[entry.scope]));
  }
}

std::vector<const PublishedRow*> pointers(const std::vector<PublishedRow>& rows) {
  std::vector<const PublishedRow*> list;
  for (const PublishedRow& row : rows)
    if (row.metric == Metric::step_seconds) list.push_back(&row);
  return list;
}

// Rows predicted by a table that was fitted without them.
template <class LeftOut>
void predict_left_out(std::vector<PublishedRow>& rows, const RatesTable& start, LeftOut left_out,
                      const std::string& unknown_stack, std::vector<PredictedRow>& out) {
  std::vector<const PublishedRow*> kept;
  for (const PublishedRow* row : pointers(rows))
    if (!left_out(*row)) kept.push_back(row);
  RatesTable fitted = kept.empty() ? start : fit_rates(start, kept);
  if (!unknown_stack.empty()) fitted = without_stack(std::move(fitted), unknown_stack);
  for (PublishedRow& row : rows) {
    if (row.metric != Metric::step_seconds || !left_out(row)) continue;
    use_rates(row, fitted);
    out.push_back(predict_row(row));
  }
}

}  // namespace

RatesTable fit_rates(const RatesTable& start, std::vector<const PublishedRow*> rows) {
  engine::expect(!rows.empty(), "rows to fit");
  return Problem(start, rows).solve();
}

FitAccount fit_and_validate(const RatesTable& start, std::vector<PublishedRow>& rows,
                            const FitProgress& progress) {
  constexpr unsigned kFolds = 5;
  std::map<std::string, std::set<std::string>> stacks_of_source;
  for (const PublishedRow* row : pointers(rows))
    stacks_of_source[row->source].insert(row->scenario.stack.rates);
  const int total = 1 + static_cast<int>(kFolds) + static_cast<int>(stacks_of_source.size());
  int done = 0;
  auto report = [&] { progress(++done, total); };

  FitAccount account{fit_rates(start, pointers(rows)), {}, {}};
  report();
  for (PublishedRow& row : rows) {
    use_rates(row, account.table);
    if (row.metric == Metric::step_seconds) account.in_sample.push_back(predict_row(row));
  }
  for (unsigned fold = 0; fold < kFolds; ++fold) {
    predict_left_out(
        rows, start, [&](const PublishedRow& row) { return fold_of(row.shape, kFolds) == fold; },
        {}, account.cross.by_shape);
    report();
  }
  for (const auto& [source, stacks] : stacks_of_source) {
    predict_left_out(
        rows, start, [&](const PublishedRow& row) { return row.source == source; }, *stacks.begin(),
        account.cross.by_source);
    report();
  }
  set_sigmas(account.table, account.cross);
  for (PublishedRow& row : rows) use_rates(row, account.table);
  return account;
}

ErrorSummary summarize_sources_alike(const std::vector<PredictedRow>& rows) {
  std::map<std::string, std::vector<const PredictedRow*>> sources;
  for (const PredictedRow& row : rows) sources[row.row->source].push_back(&row);
  ErrorSummary mean;
  for (const auto& [source, members] : sources) {
    const ErrorSummary one = summarize(members);
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
