// What a time of a step means for people: its interval, its parts, its rates.
#include <cmath>
#include <string>

#include "tuner/model/cost_model.h"

namespace tuner {

using engine::ParallelPlan;

double CostModel::sigma(const ParallelPlan& plan) const {
  const Rates& rates = scenario_->rates;
  const SeenFeatures features =
      seen_features(scenario_->model, scenario_->workload, scenario_->cluster, plan);
  return std::hypot(rates.residual_sigma, rates.distance_sigma * rates.seen.distance(features));
}

void CostModel::fill_outcome(const ParallelPlan& plan, engine::Outcome& outcome) const {
  const engine::Workload& work = scenario_->workload;
  const StepParts parts = simulated_step(micro_batch_cost(plan), plan);
  outcome.step_seconds = parts.total();
  outcome.interval_seconds = interval_of(outcome.step_seconds, sigma(plan));
  outcome.breakdown_seconds.clear();
  for (int part = 0; part < kStepParts; ++part)
    outcome.breakdown_seconds.emplace_back(std::string(name_of(static_cast<StepPart>(part))),
                                           parts.seconds[static_cast<size_t>(part)]);
  const double tokens = static_cast<double>(plan.gbs * work.seq);
  const double per_gpu = tokens / outcome.step_seconds / plan.world();
  outcome.tokens_per_second_per_gpu = per_gpu;
  outcome.tflops_per_gpu =
      3 * engine::forward_flops_per_token(scenario_->model, work.seq, scenario_->vocab(plan.tp)) *
      per_gpu / 1e12;
  outcome.mfu = outcome.tflops_per_gpu * 1e12 / scenario_->cluster.device.peak(work.precision);
}

}  // namespace tuner
