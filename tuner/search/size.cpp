// Finding the number of GPUs or the size of a model that meets a deadline.
#include "tuner/search/size.h"

#include <fmt/format.h>

#include <algorithm>
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

// The best plan of one candidate; kNever where none fits.
struct Training {
  std::optional<PlanAnswer> best;
  double fast_days = kNever, days = kNever, slow_days = kNever;
};
using Days = double Training::*;

Training train(const Scenario& scenario) {
  Training training{fastest_plan(scenario)};
  if (!training.best) return training;
  const engine::Outcome& outcome = training.best->predicted;
  training.fast_days = training_days(scenario.workload, outcome.interval_seconds.low);
  training.days = training_days(scenario.workload, outcome.step_seconds);
  training.slow_days = training_days(scenario.workload, outcome.interval_seconds.high);
  return training;
}

std::string days_text(double days) { return engine::format_seconds(days * kSecondsOfDay); }

// Candidates in the order in which their trainings get shorter but for local exceptions: more and
// more GPUs, or fewer and fewer parameters.
class Ladder {
 public:
  // `load` is what the days would be proportional to if all candidates used GPUs equally well:
  // parameters, or one over the GPUs.
  Ladder(std::vector<double> load, std::function<Scenario(size_t)> scenario_of)
      : load_(std::move(load)), scenario_of_(std::move(scenario_of)) {}

  size_t size() const { return load_.size(); }
  Scenario scenario(size_t index) const { return scenario_of_(index); }

  const Training& at(size_t index) {
    const auto known = trainings_.find(index);
    if (known != trainings_.end()) return known->second;
    return trainings_.emplace(index, train(scenario_of_(index))).first->second;
  }
  int64_t searches() const { return static_cast<int64_t>(trainings_.size()); }

  // The first candidate whose days meet the deadline; nullopt when none does.
  std::optional<size_t> first(Days days, double deadline) {
    const auto meets = [&](size_t index) { return at(index).*days <= deadline; };
    size_t below = 0;  // candidates before it are too slow, as far as asked
    for (size_t index = start(deadline); index < size(); index = half_of(index)) {
      if (meets(index)) return descend(bisect(below, index, meets), days, deadline);
      below = index + 1;
    }
    // The gaps around the fastest ones seen.
    for (const size_t index : around_fastest())
      if (meets(index)) return descend(index, days, deadline);
    return std::nullopt;
  }

  // The candidate before `end` with the shortest training of those seen, and its days; nullopt when
  // none of them fitted.
  std::optional<std::pair<size_t, double>> fastest(size_t end) const {
    std::optional<std::pair<size_t, double>> best;
    for (const auto& [index, training] : trainings_)
      if (index < end && training.best && (!best || training.days < best->second))
        best = {index, training.days};
    return best;
  }

  // The candidate seen that used its GPUs best, and how well `index` uses them relative to it.
  std::pair<size_t, double> efficiency(size_t index) const {
    const auto rate = [&](size_t i) { return load_[i] / trainings_.at(i).days; };
    size_t best = index;
    for (const auto& [seen, training] : trainings_)
      if (rate(seen) > rate(best)) best = seen;
    return {best, rate(index) / rate(best)};
  }

 private:
  // The first candidate that ideal machines could train in time, all candidates if there is none.
  size_t start(double deadline) const {
    for (size_t index = 0; index < size(); ++index)
      if (ideal_days(index) <= deadline) return index;
    return 0;
  }
  // Every product at the datasheet's rate, and nothing else.
  double ideal_days(size_t index) const {
    const Scenario s = scenario_of_(index);
    const double flops = 3 * forward_flops_per_token(s.model, s.workload.seq, s.model.vocab);
    const double rate = s.cluster.device.peak(s.workload.precision) * s.cluster.gpus;
    return s.workload.tokens * flops / rate / kSecondsOfDay;
  }
  // The next candidate of at most half the load; the last one is never left out.
  size_t half_of(size_t index) const {
    if (index + 1 >= size()) return size();
    size_t next = index + 1;
    while (next + 1 < size() && load_[next] > load_[index] / 2) ++next;
    return next;
  }
  static size_t bisect(size_t low, size_t high, const auto& meets) {
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (meets(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return high;
  }
  // Goes on to every earlier candidate that would meet the deadline if it used its GPUs as well as
  // the best one seen: days do not fall steadily, since divisors decide which plans there are.
  size_t descend(size_t found, Days days, double deadline) {
    for (size_t index = found; index-- > 0;) {
      double best_rate = 0;
      for (const auto& [seen, training] : trainings_)
        if (training.best) best_rate = std::max(best_rate, load_[seen] / (training.*days));
      if (load_[index] / best_rate > deadline) break;
      if (at(index).*days <= deadline) found = index;
    }
    return found;
  }
  std::vector<size_t> around_fastest() const {
    constexpr size_t kMost = 32;
    const auto best = fastest(size());
    if (!best) return {};
    const auto next = trainings_.upper_bound(best->first);
    const auto here = trainings_.find(best->first);
    const size_t from = here == trainings_.begin() ? 0 : std::prev(here)->first;
    const size_t to = next == trainings_.end() ? size() : next->first;
    std::vector<size_t> indices;
    const size_t stride = std::max<size_t>(1, (to - from) / kMost);
    for (size_t index = from; index < to; index += stride) indices.push_back(index);
    return indices;
  }

  std::vector<double> load_;
  std::function<Scenario(size_t)> scenario_of_;
  std::map<size_t, Training> trainings_;
};

// Numbers of GPUs in whole nodes that some plan can use.
Ladder gpu_ladder(const Scenario& scenario) {
  std::vector<int> counts = SearchSpace(scenario, {}).usable_gpu_counts();
  std::erase_if(counts, [&](int count) { return count % scenario.cluster.gpus_per_node() != 0; });
  std::vector<double> load;
  for (const int count : counts) load.push_back(1.0 / count);
  return {std::move(load), [scenario, counts = std::move(counts)](size_t index) {
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
  for (const engine::ModelSpec& model : models)
    load.push_back(static_cast<double>(parameter_count(model)));
  return {std::move(load), [scenario, models = std::move(models)](size_t index) {
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
void note_better_ones(SizeUnknown unknown, const Ladder& ladder, size_t found,
                      std::vector<std::string>& notes) {
  const bool gpus = unknown == SizeUnknown::gpus;
  if (const auto closest = ladder.fastest(found))
    notes.push_back(fmt::format(
        "closest of the {}: {} would take ~{}", gpus ? "smaller numbers" : "larger models",
        amount_text(unknown, ladder.scenario(closest->first)), days_text(closest->second)));
  else if (found > 0)
    notes.emplace_back(gpus ? "on fewer GPUs the model does not fit"
                            : "no larger model fits, so memory is the limit and not the time");
}

// What scaling costs, against the number of GPUs that uses each of them best.
void note_efficiency(const Ladder& ladder, size_t found, std::vector<std::string>& notes) {
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

SizeRange range_of(Ladder& ladder, const SizeRequest& request) {
  const auto amount = [&](Days days) {
    const auto index = ladder.first(days, request.deadline_days);
    return index ? amount_of(request.unknown, ladder.scenario(*index)) : 0;
  };
  return {amount(&Training::fast_days), amount(&Training::slow_days)};
}

void meet_deadline(Sizing& sizing, Ladder ladder) {
  const SizeRequest& request = sizing.request;
  const auto found = ladder.first(&Training::days, request.deadline_days);
  const auto fastest = ladder.fastest(ladder.size());
  const auto index = found || !fastest ? found : std::optional(fastest->first);
  sizing.meets_deadline = found.has_value();
  sizing.scenario = ladder.scenario(index.value_or(ladder.size() - 1));
  if (index) sizing.best = ladder.at(*index).best;
  if (found) {
    sizing.range = range_of(ladder, request);
    note_better_ones(request.unknown, ladder, *found, sizing.notes);
  } else if (index) {
    sizing.notes.push_back(missed(sizing, sizing.scenario, ladder.at(*index).days));
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
      sizing.best = fastest_plan(request.scenario);
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
