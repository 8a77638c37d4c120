// ResidualModel: how measured step times differ from predicted ones, for plans not yet measured.
#pragma once
#include <array>

#include "engine/plan/parallel_plan.h"
#include "tuner/model/serve_plan.h"

namespace tuner {

// Bayesian linear regression (Bishop 2006, equations 3.53 to 3.59) of log(measured / predicted) on
// what plans differ in. The prior of a common factor is wide and that of differences between plans
// narrow, so that few measurements shift all predictions and many tell kinds of plans apart.
class ResidualModel {
 public:
  static constexpr int kFeatures = 8;
  // What plans differ in, by numbers of about 1; the first is 1 in all.
  using Row = std::array<double, kFeatures>;

  // `sigma` is the standard deviation of the logarithm that the predictions are said to have,
  // `correlation` how much of it two plans share.
  ResidualModel(double sigma, double correlation);
  // `sigma` is that of the logarithm of what was measured.
  void add(const Row& features, double predicted, double measured, double sigma);

  struct Correction {
    double log_factor = 0;  // of the prediction
    double sigma = 0;       // of the logarithm, after the correction
  };
  Correction correction(const Row& features) const;

 private:
  Row solve(Row right) const;

  std::array<Row, kFeatures> precision_{};  // of the weights
  Row moment_{};
  double noise_variance_ = 0;
};

ResidualModel::Row features_of(const engine::ParallelPlan& plan);
ResidualModel::Row features_of(const ServePlan& plan);

}  // namespace tuner
