// Regression of log-ratios on the members of a plan.
#include "tuner/search/residual_model.h"

#include <algorithm>
#include <cmath>

namespace tuner {
namespace {

constexpr double kNoise = 0.03;  // of the logarithm: what no member of a plan explains

}  // namespace

ResidualModel::ResidualModel(double sigma, double correlation) {
  const double common = sigma * std::sqrt(correlation) + 0.05;
  const double different = sigma * std::sqrt(1 - correlation);
  noise_variance_ = kNoise * kNoise;
  for (size_t i = 0; i < kFeatures; ++i) {
    const double prior = i == 0 ? 4 * common : different;
    precision_[i][i] = 1 / (prior * prior);
  }
}

// Gaussian elimination; the matrix is positive definite.
ResidualModel::Row ResidualModel::solve(Row right) const {
  std::array<Row, kFeatures> a = precision_;
  for (size_t i = 0; i < kFeatures; ++i)
    for (size_t row = i + 1; row < kFeatures; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (size_t column = i; column < kFeatures; ++column) a[row][column] -= factor * a[i][column];
      right[row] -= factor * right[i];
    }
  for (size_t i = kFeatures; i-- > 0;) {
    for (size_t column = i + 1; column < kFeatures; ++column)
      right[i] -= a[i][column] * right[column];
    right[i] /= a[i][i];
  }
  return right;
}

void ResidualModel::add(const Row& x, double predicted, double measured, double sigma) {
  const double y = std::log(measured / predicted);
  const double variance = noise_variance_ + sigma * sigma;
  for (size_t i = 0; i < kFeatures; ++i) {
    moment_[i] += x[i] * y / variance;
    for (size_t j = 0; j < kFeatures; ++j) precision_[i][j] += x[i] * x[j] / variance;
  }
}

ResidualModel::Correction ResidualModel::correction(const Row& x) const {
  const Row weights = solve(moment_);
  const Row spread = solve(x);
  Correction result;
  double variance = noise_variance_;
  for (size_t i = 0; i < kFeatures; ++i) {
    result.log_factor += weights[i] * x[i];
    variance += x[i] * spread[i];
  }
  result.sigma = std::sqrt(variance);
  return result;
}

ResidualModel::Row features_of(const engine::ParallelPlan& plan) {
  using Mode = engine::Recompute::Mode;
  const double log_micro_batches = std::log2(static_cast<double>(plan.micro_batches()));
  const auto chosen = [](bool is) { return is ? 1.0 : 0.0; };
  // Degrees enter by their logarithm, scaled so that usual differences are near 1.
  return {1,
          std::log2(plan.tp) / 2,
          std::log2(plan.pp) / 2,
          std::log2(plan.vpp) / 2,
          log_micro_batches / 4,
          chosen(plan.recompute.mode == Mode::full),
          chosen(plan.zero == 3),
          chosen(plan.sp)};
}

ResidualModel::Row features_of(const ServePlan& plan) {
  const double tensor = std::log2(plan.tp) / 2, pipeline = std::log2(plan.pp) / 2;
  const double batch = std::log2(static_cast<double>(plan.batch)) / 4;
  return {1,     tensor,         pipeline,         std::log2(plan.replicas) / 2,
          batch, tensor * batch, pipeline * batch, plan.weights == ServeFormat::f32 ? 0.0 : 1.0};
}

}  // namespace tuner
