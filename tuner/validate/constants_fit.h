// Fit of a table of constants to measurements, every constant held by its prior.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "tuner/model/constant_table.h"

namespace tuner {

// One measured run: the entries of the table that apply to it, and log(predicted / measured) of
// each of its metrics under given constants (in the order of the table's names).
struct FitRun {
  std::vector<size_t> applicable;
  std::vector<double> weights;  // of the metrics
  std::function<std::vector<double>(std::span<const double> constants)> log_errors;
};

struct FitOptions {
  double soft = 0.1;  // error from which a metric pulls like its absolute value
  int most_iterations = 20;
  double difference = 1e-2;  // of the logarithm of a constant, for slopes
  double converged = 1e-4;   // share of the cost that an iteration must still save
  std::function<bool(int constant)> moves =
      {};  // the others stay as they are; empty = all may move
};

// Least squares with a soft absolute value (Charbonnier et al. 1994) and log-normal priors
// (logit-normal for shares), by Gauss–Newton with damping, from the table's present values. What
// no run depends on is as its prior. No randomness: the same runs give the same digits.
void fit_constants(ConstantTable& table, const std::vector<const FitRun*>& runs,
                   const FitOptions& options);

}  // namespace tuner
