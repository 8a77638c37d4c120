// Normal equations of a weighted least-squares problem.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace tuner {

// Minimises Σ weight · (error + Σ slope · step)² over the steps.
class NormalEquations {
 public:
  explicit NormalEquations(size_t unknowns);
  // One observation; `slopes` are (unknown, derivative of the error).
  void add(const std::vector<std::pair<size_t, double>>& slopes, double error, double weight);
  // Levenberg–Marquardt: every diagonal element grows by the share `damping`.
  std::vector<double> solve(double damping) const;

 private:
  size_t n_;
  std::vector<double> matrix_;  // [n, n], symmetric
  std::vector<double> right_;
};

}  // namespace tuner
