// Finding the number of GPUs or the size of a model that meets a deadline.
#include "tuner/search/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "engine/base/errors.h"
#include "engine/base/units.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/presets.h"
#include "tuner/search/explain.h"
#include "tuner/space/search_space.h"

namespace tuner {

using engine::format_grouped;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSecondsOfDay = 86400;

std::string days_text(double days) { return engine::format_seconds(days * kSecondsOfDay); }

// Candidates in the order in which their trainings get shorter but for local exceptions: more and
// more GPUs, or fewer and fewer parameters.
class Ladder {
 public:
  // `load` is what the days would be proportional to if all candidates used GPUs equally well:
  // parameters, or one over the GPUs. `stops` are candidates that leave about half the load of the
  // stop before, those that divide best.
  Ladder(std::vector<double> load, std::vector<size_t> stops,
         std::function<Scenario(size_t)> scenario_of)
      : load_(std::move(load)), stops_(std::move(stops)), scenario_of_(std::move(scenario_of)) {}

  size_t size() const { return load_.size(); }
  Scenario scenario(size_t index) const { return scenario_of_(index); }
  int64_t searches() const { return static_cast<int64_t>(seen_.size()); }

  // As the best plan is simulated; nullptr where none fits.
  const PlanAnswer* best(size_t index) {
    Candidate& candidate = see(index);
    if (!candidate.best && !candidate.search.finalists.empty())
      candidate.best = fastest_plan(scenario_of_(index), candidate.search);
    return candidate.best ? &*candidate.best : nullptr;
  }
  double days(size_t index) {
    const PlanAnswer* answer = best(index);
    return answer ? training_days(scenario_of_(index).workload, answer->step_seconds()) : kNever;
  }

  // The first candidate that meets the deadline; nullopt when none does. Divisors decide which
  // plans there are, so days do not fall steadily: every candidate is asked that would be quick
  // enough with GPUs used a little better than at any stop.
  std::optional<size_t> first(double deadline) {
    constexpr double kSlack = 1.05;
    double best_rate = 0;
    for (const size_t stop : stops_) {
      if (stop != stops_.back() && ideal_days(stop) > deadline) continue;
      best_rate = std::max(best_rate, rate(stop));
      if (!meets(stop, deadline)) continue;
      for (size_t index = 0; index < stop; ++index)
        if (load_[index] <= deadline * best_rate * kSlack && meets(index, deadline)) return index;
      return stop;
    }
    for (const size_t stop : stops_) see(stop);
    return std::nullopt;
  }

  // The candidate before `end` with the shortest training of those seen; nullopt when none fitted.
  std::optional<size_t> fastest(size_t end) const {
    std::optional<size_t> fastest;
    for (const auto& [index, candidate] : seen_)
      if (index < end && candidate.days < (fastest ? seen_.at(*fastest).days : kNever))
        fastest = index;
    return fastest;
  }

  // The candidate seen that uses its GPUs best, and how well `index` uses them relative to it.
  std::pair<size_t, double> efficiency(size_t index) {
    size_t best = index;
    for (const auto& [other, candidate] : seen_)
      if (load_[other] / candidate.days > load_[best] / seen_.at(best).days) best = other;
    return {best, rate(index) / rate(best)};
  }

 private:
  struct Candidate {
    SearchResult search;
    double days = kNever;  // by the closed form, which is quick
    std::optional<PlanAnswer> best;
  };

  Candidate& see(size_t index) {
    const auto known = seen_.find(index);
    if (known != seen_.end()) return known->second;
    const Scenario scenario = scenario_of_(index);
    Candidate candidate{search_plans(scenario, {}), kNever, std::nullopt};
    if (const auto& plans = candidate.search.finalists; !plans.empty())
      candidate.days = training_days(scenario.workload, plans.front().step_seconds);
    return seen_.emplace(index, std::move(candidate)).first->second;
  }
  double rate(size_t index) { return load_[index] / see(index).days; }
  // Simulates only where the closed form comes near.
  bool meets(size_t index, double deadline) {
    constexpr double kNear = 1.1;
    return see(index).days <= kNear * deadline && days(index) <= deadline;
  }
  // Every product at the datasheet's rate, and nothing else.
  double ideal_days(size_t index) const {
    const Scenario s = scenario_of_(index);
    const double flops = 3 * forward_flops_per_token(s.model, s.workload.seq, s.model.vocab);
    const double rate = s.cluster.device.peak(s.workload.precision) * s.cluster.gpus;
    return s.workload.tokens * flops / rate / kSecondsOfDay;
  }

  std::vector<double> load_;
  std::vector<size_t> stops_;
  std::function<Scenario(size_t)> scenario_of_;
  std::map<size_t, Candidate> seen_;
};

// Numbers of GPUs in whole nodes that some plan can use.
Ladder gpu_ladder(const Scenario& scenario) {
  std::vector<int> counts = SearchSpace(scenario, {}).usable_gpu_counts();
  std::erase_if(counts, [&](int count) { return count % scenario.cluster.gpus_per_node() != 0; });
  std::vector<double> load;
  std::vector<size_t> stops;  // of every power of two, the number with most factors of two
  for (size_t index = 0; index < counts.size(); ++index) {
    const auto count = static_cast<unsigned>(counts[index]);
    load.push_back(1.0 / count);
    const bool opens =
        stops.empty() ||
        std::bit_width(count) > std::bit_width(static_cast<unsigned>(counts[stops.back()]));
    if (opens)
      stops.push_back(index);
    else if (std::countr_zero(count) >
             std::countr_zero(static_cast<unsigned>(counts[stops.back()])))
      stops.back() = index;
  }
  return {std::move(load), std::move(stops), [scenario, counts = std::move(counts)](size_t index) {
            Scenario candidate = scenario;
            candidate.cluster.gpus = counts[index];
            return candidate;
          }};
}

// Shapes of 10t to 1m parameters, by counts of three digits about 1 % apart; each shape once, under
// the count nearest to its own.
std::vector<engine::ModelSpec> shapes() {
  std::vector<engine::ModelSpec> models;
  double nearest = kNever;  // how far the last model's own count is from the one it is named after
  for (double unit = 1e10; unit >= 1e4; unit /= 10)
    for (int digits = unit == 1e10 ? 1000 : 999; digits >= 100; digits -= digits / 100) {
      engine::ModelSpec model = derive_gpt(digits * unit);
      const double off = std::abs(digits * unit - static_cast<double>(parameter_count(model)));
      const bool known = !models.empty() && model.layers == models.back().layers &&
                         model.hidden == models.back().hidden;
      if (known && off >= nearest) continue;
      if (known) models.pop_back();
      models.push_back(std::move(model));
      nearest = off;
    }
  return models;
}

Ladder parameter_ladder(const Scenario& scenario) {
  std::vector<engine::ModelSpec> models = shapes();
  std::vector<double> load;
  std::vector<size_t> stops;
  for (size_t index = 0; index < models.size(); ++index) {
    load.push_back(static_cast<double>(parameter_count(models[index])));
    if (stops.empty() || load.back() <= load[stops.back()] / 2 || index + 1 == models.size())
      stops.push_back(index);
  }
  return {std::move(load), std::move(stops), [scenario, models = std::move(models)](size_t index) {
            Scenario candidate = scenario;
            candidate.model = models[index];
            return candidate;
          }};
}

double amount_of(SizeUnknown unknown, const Scenario& scenario) {
  return unknown == SizeUnknown::gpus ? scenario.cluster.gpus
                                      : static_cast<double>(parameter_count(scenario.model));
}

std::string amount_text(SizeUnknown unknown, const Scenario& scenario) {
  return unknown == SizeUnknown::gpus
             ? format_grouped(scenario.cluster.gpus) + " GPUs"
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
  else if (m == 1 && plan.dp > 1)
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
