// Gauss–Newton over the entries of a table of constants.
#include "tuner/validate/constants_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tuner/validate/least_squares.h"

namespace tuner {

namespace {

class Problem {
 public:
  Problem(ConstantTable& table, const std::vector<const FitRun*>& runs, const FitOptions& options)
      : table_(table), runs_(runs), options_(options) {
    std::set<size_t> used;
    for (const FitRun* run : runs)
      for (const size_t entry : run->applicable)
        if (may_move(table.entries()[entry]) && table.entries()[entry].prior > 0)
          used.insert(entry);
    for (size_t entry = 0; entry < table.entries().size(); ++entry)
      if (may_move(table.entries()[entry]) && !used.contains(entry))
        table.set_value(entry, table.entries()[entry].prior);
    for (const size_t entry : used) {
      column_[entry] = free_.size();
      free_.push_back(entry);
    }
  }

  void solve() {
    double cost = this->cost();
    double damping = 1e-3;
    for (int iteration = 0; iteration < options_.most_iterations; ++iteration) {
      const NormalEquations equations = linearized();
      const std::vector<double> before = values();
      bool better = false;
      for (int attempt = 0; attempt < 6 && !better; ++attempt, damping *= 6) {
        move(before, equations.solve(damping));
        const double moved = this->cost();
        better = moved < cost;
        if (!better) continue;
        const bool converged = cost - moved < options_.converged * cost;
        cost = moved;
        damping = std::max(1e-9, damping / 36);
        if (converged) return;
      }
      if (better) continue;
      move(before, std::vector<double>(free_.size(), 0.0));
      return;
    }
  }

 private:
  bool may_move(const ScopedRate& entry) const {
    return entry.sigma > 0 && (!options_.moves || options_.moves(entry.constant));
  }
  double to_free(const ScopedRate& entry, double value) const {
    return is_share(entry) ? std::log(value / (1 - value)) : std::log(value);
  }
  double from_free(const ScopedRate& entry, double free) const {
    return is_share(entry) ? 1 / (1 + std::exp(-free)) : std::exp(free);
  }
  bool is_share(const ScopedRate& entry) const {
    return !entry.is_factor && table_.is_share(entry.constant);
  }
  // Of the logarithm of an entry's value by the number the fit moves.
  double inner_slope(const ScopedRate& entry) const {
    return is_share(entry) ? 1 - entry.value : 1;
  }
  double prior_distance(const ScopedRate& entry) const {
    return (to_free(entry, entry.value) - to_free(entry, entry.prior)) / entry.sigma;
  }

  double cost() const {
    double sum = 0;
    for (const FitRun* run : runs_) {
      const std::vector<double> errors = run->log_errors(table_.resolved(run->applicable));
      for (size_t i = 0; i < errors.size(); ++i) {
        const double z = errors[i] / options_.soft;
        sum += run->weights[i] * 2 * (std::sqrt(1 + z * z) - 1);
      }
    }
    for (const size_t entry : free_) {
      const double distance = prior_distance(table_.entries()[entry]);
      sum += distance * distance;
    }
    return sum;
  }

  // All entries of a constant have the same slope: they multiply.
  NormalEquations linearized() const {
    NormalEquations equations(free_.size());
    for (const FitRun* run : runs_) {
      std::vector<double> constants = table_.resolved(run->applicable);
      const std::vector<double> errors = run->log_errors(constants);
      std::vector<std::vector<std::pair<size_t, double>>> slopes(errors.size());
      std::map<int, std::vector<double>> of_constant;
      for (const size_t at : run->applicable) {
        const auto found = column_.find(at);
        if (found == column_.end()) continue;
        const ScopedRate& entry = table_.entries()[at];
        std::vector<double>& slope = of_constant[entry.constant];
        if (slope.empty()) {
          double& constant = constants[static_cast<size_t>(entry.constant)];
          const double saved = constant;
          constant *= std::exp(options_.difference);
          slope = run->log_errors(constants);
          constant = saved;
        }
        for (size_t i = 0; i < errors.size(); ++i)
          slopes[i].emplace_back(found->second,
                                 (slope[i] - errors[i]) / options_.difference * inner_slope(entry));
      }
      for (size_t i = 0; i < errors.size(); ++i) {
        const double z = errors[i] / options_.soft;
        equations.add(slopes[i], errors[i],
                      run->weights[i] / std::sqrt(1 + z * z) / (options_.soft * options_.soft));
      }
    }
    for (size_t i = 0; i < free_.size(); ++i) {
      const ScopedRate& entry = table_.entries()[free_[i]];
      equations.add({{i, 1.0}}, prior_distance(entry) * entry.sigma,
                    1 / (entry.sigma * entry.sigma));
    }
    return equations;
  }

  std::vector<double> values() const {
    std::vector<double> list;
    for (const size_t entry : free_) list.push_back(table_.entries()[entry].value);
    return list;
  }

  void move(const std::vector<double>& from, const std::vector<double>& step) {
    constexpr double kLongest = 0.7;  // a factor of two at most in one iteration
    for (size_t i = 0; i < free_.size(); ++i) {
      const ScopedRate& entry = table_.entries()[free_[i]];
      table_.set_value(free_[i], from_free(entry, to_free(entry, from[i]) +
                                                      std::clamp(step[i], -kLongest, kLongest)));
    }
  }

  ConstantTable& table_;
  const std::vector<const FitRun*>& runs_;
  FitOptions options_;
  std::vector<size_t> free_;
  std::map<size_t, size_t> column_;  // of a free entry
};

}  // namespace

void fit_constants(ConstantTable& table, const std::vector<const FitRun*>& runs,
                   const FitOptions& options) {
  Problem(table, runs, options).solve();
}

}  // namespace tuner
