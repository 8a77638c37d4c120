// Names and sums of the parts of a step.
#include <cmath>

#include "tuner/model/cost_model.h"

namespace tuner {
namespace {

constexpr std::array<std::string_view, kStepParts> kPartNames = {"gemm",
                                                                 "attention",
                                                                 "elementwise",
                                                                 "launch",
                                                                 "tensor_communication",
                                                                 "context_communication",
                                                                 "recompute",
                                                                 "embedding_and_head",
                                                                 "pipeline_communication",
                                                                 "micro_batch_overhead",
                                                                 "bubble",
                                                                 "data_communication",
                                                                 "optimizer",
                                                                 "step_overhead",
                                                                 "stragglers"};

}  // namespace

std::string_view name_of(StepPart part) { return kPartNames[static_cast<size_t>(part)]; }

double StepParts::total() const {
  double sum = 0;
  for (const double part : seconds) sum += part;
  return sum;
}

engine::Interval interval_of(double value, double sigma) {
  constexpr double kTwoSided90 = 1.6449;
  const double factor = std::exp(kTwoSided90 * sigma);
  return {value / factor, value * factor};
}

}  // namespace tuner
