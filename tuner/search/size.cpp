// Finding the number of GPUs or the size of a model that meets a deadline.
#include "tuner/search/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/units.h"
#include "tuner/model/cost_model.h"
#include "tuner/search/explain.h"
#include "tuner/search/ladder.h"

namespace tuner {

using engine::format_grouped;

namespace {

constexpr double kSecondsOfDay = 86400;

std::string days_text(double days) { return engine::format_seconds(days * kSecondsOfDay); }

double amount_of(SizeUnknown unknown, const Scenario& scenario) {
  return unknown == SizeUnknown::gpus ? scenario.cluster.gpus
                                      : static_cast<double>(parameter_count(scenario.model));
}

std::string amount_text(SizeUnknown unknown, const Scenario& scenario) {
  return unknown == SizeUnknown::gpus
             ? fmt::format("{} GPU{}", format_grouped(scenario.cluster.gpus),
                           scenario.cluster.gpus == 1 ? "" : "s")
             : engine::format_count(amount_of(unknown, scenario)) + " parameters";
}

// Whether more GPUs would mostly wait: what the batch leaves each replica to do.
void note_batch_limit(const Scenario& scenario, const PlanAnswer& best,
                      std::vector<std::string>& notes) {
  constexpr double kLargeBubble = 0.1;
  const engine::ParallelPlan& plan = best.plan;
  const int64_t m = plan.micro_batches();
  double bubble = 0;
  for (const auto& [name, seconds] : best.predicted.breakdown_seconds)
    if (name == name_of(StepPart::bubble)) bubble = seconds / best.predicted.step_seconds;
  const std::string batch = fmt::format(
      "the batch of {} sequences limits scaling: it leaves each "
      "of the {} replicas {} micro-batch{}",
      format_grouped(scenario.workload.gbs), format_grouped(plan.dp), m, m == 1 ? "" : "es");
  if (plan.pp > 1 && bubble >= kLargeBubble)
    notes.push_back(
        fmt::format("{} for {} pipeline stages, which idle for {:.0f} % of the step; a "
                    "larger --gbs would use GPUs better",
                    batch, plan.pp, 100 * bubble));
  else if (m == 1 && plan.mbs == 1 && plan.dp > 1)
    notes.push_back(batch + ", so further replicas would have nothing to do");
}

// How close the candidates come that would have been better: fewer GPUs, or more parameters.
void note_better_ones(SizeUnknown unknown, Ladder& ladder, size_t found,
                      std::vector<std::string>& notes) {
  const bool gpus = unknown == SizeUnknown::gpus;
  if (const auto closest = ladder.fastest(found))
    notes.push_back(fmt::format(
        "closest of the {}: {} would take ~{}", gpus ? "smaller numbers" : "larger models",
        amount_text(unknown, ladder.scenario(*closest)), days_text(ladder.days(*closest))));
  else if (found > 0)
    notes.emplace_back(gpus ? "on fewer GPUs the model does not fit"
                            : "no larger model fits, so memory is the limit and not the time");
}

// What scaling costs, against the number of GPUs that uses each of them best.
void note_efficiency(Ladder& ladder, size_t found, std::vector<std::string>& notes) {
  constexpr double kPoor = 0.75;
  const auto [best, efficiency] = ladder.efficiency(found);
  if (efficiency < kPoor)
    notes.push_back(fmt::format("each GPU does {:.0f} % of what it would do among {} of them",
                                100 * efficiency,
                                format_grouped(ladder.scenario(best).cluster.gpus)));
}

std::string missed(const Sizing& sizing, const Scenario& fastest, double days) {
  const SizeUnknown unknown = sizing.request.unknown;
  const std::string deadline = days_text(sizing.request.deadline_days);
  if (unknown == SizeUnknown::gpus)
    return fmt::format("no number of GPUs meets {}: {} are the fastest, in ~{}", deadline,
                       amount_text(unknown, fastest), days_text(days));
  return fmt::format("no model meets {}: the fastest has {}, and takes ~{}", deadline,
                     amount_text(unknown, fastest), days_text(days));
}

// What the deadline would take if all steps were as fast or as slow as those of the best plan can
// be.
SizeRange range_of(Ladder& ladder, const SizeRequest& request, size_t found) {
  const engine::Outcome& step = ladder.best(found)->predicted;
  const auto first = [&](double seconds) {
    return ladder.first(request.deadline_days * step.step_seconds / seconds);
  };
  const auto amount = [&](size_t index) {
    return amount_of(request.unknown, ladder.scenario(index));
  };
  const auto fast = first(step.interval_seconds.low), slow = first(step.interval_seconds.high);
  return {amount(std::min(found, fast.value_or(found))), slow ? amount(std::max(found, *slow)) : 0};
}

void meet_deadline(Sizing& sizing, Ladder ladder) {
  const SizeRequest& request = sizing.request;
  const auto found = ladder.first(request.deadline_days);
  const auto index = found ? found : ladder.fastest(ladder.size());
  sizing.meets_deadline = found.has_value();
  sizing.scenario = ladder.scenario(index.value_or(ladder.size() - 1));
  if (index) sizing.best = *ladder.best(*index);
  if (found) {
    sizing.range = range_of(ladder, request, *found);
    note_better_ones(request.unknown, ladder, *found, sizing.notes);
  } else if (index) {
    sizing.notes.push_back(missed(sizing, sizing.scenario, sizing.days()));
  }
  if (index && request.unknown == SizeUnknown::gpus) note_efficiency(ladder, *index, sizing.notes);
  sizing.searches = ladder.searches();
}

}  // namespace

std::string_view name_of(SizeUnknown unknown) {
  switch (unknown) {
    case SizeUnknown::days:
      return "days";
    case SizeUnknown::gpus:
      return "gpus";
    case SizeUnknown::parameters:
      return "parameters";
  }
  return "";
}

double Sizing::days() const {
  return best ? training_days(scenario.workload, best->step_seconds()) : 0;
}

engine::Interval Sizing::interval_days() const {
  if (!best) return {};
  const engine::Interval& step = best->predicted.interval_seconds;
  return {training_days(scenario.workload, step.low), training_days(scenario.workload, step.high)};
}

Sizing size_training(const SizeRequest& request) {
  Sizing sizing;
  sizing.request = request;
  sizing.scenario = request.scenario;
  switch (request.unknown) {
    case SizeUnknown::days:
      sizing.best = fastest_plan(request.scenario, search_plans(request.scenario, {}));
      sizing.meets_deadline = sizing.best.has_value();
      sizing.searches = 1;
      break;
    case SizeUnknown::gpus:
      meet_deadline(sizing, gpu_ladder(request.scenario));
      break;
    case SizeUnknown::parameters:
      meet_deadline(sizing, parameter_ladder(request.scenario));
      break;
  }
  if (sizing.best)
    note_batch_limit(sizing.scenario, *sizing.best, sizing.notes);
  else
    sizing.remedies = remedies(sizing.scenario, {}, search_plans(sizing.scenario, {}));
  return sizing;
}

}  // namespace tuner
