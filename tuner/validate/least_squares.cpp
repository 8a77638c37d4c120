// Normal equations by Cholesky's method.
#include "tuner/validate/least_squares.h"

#include <cmath>

#include "engine/base/errors.h"

namespace tuner {

NormalEquations::NormalEquations(size_t unknowns)
    : n_(unknowns), matrix_(unknowns * unknowns, 0.0), right_(unknowns, 0.0) {}

void NormalEquations::add(const std::vector<std::pair<size_t, double>>& slopes, double error,
                          double weight) {
  for (const auto& [i, a] : slopes) {
    right_[i] -= weight * a * error;
    for (const auto& [j, b] : slopes) matrix_[i * n_ + j] += weight * a * b;
  }
}

std::vector<double> NormalEquations::solve(double damping) const {
  std::vector<double> lower = matrix_;
  for (size_t i = 0; i < n_; ++i) lower[i * n_ + i] *= 1 + damping;
  for (size_t i = 0; i < n_; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = lower[i * n_ + j];
      for (size_t k = 0; k < j; ++k) sum -= lower[i * n_ + k] * lower[j * n_ + k];
      if (i == j) {
        engine::expect(sum > 0, "a positive definite matrix: every unknown has a prior");
        lower[i * n_ + i] = std::sqrt(sum);
      } else {
        lower[i * n_ + j] = sum / lower[j * n_ + j];
      }
    }
  std::vector<double> x = right_;
  for (size_t i = 0; i < n_; ++i) {
    for (size_t k = 0; k < i; ++k) x[i] -= lower[i * n_ + k] * x[k];
    x[i] /= lower[i * n_ + i];
  }
  for (size_t i = n_; i-- > 0;) {
    for (size_t k = i + 1; k < n_; ++k) x[i] -= lower[k * n_ + i] * x[k];
    x[i] /= lower[i * n_ + i];
  }
  return x;
}

}  // namespace tuner
