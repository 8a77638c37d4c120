// Which number of GPUs or which size meets a deadline.
#include "tuner/search/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/base/errors.h"
#include "tuner/model/presets.h"
#include "tuner/space/search_space.h"

namespace tuner {

namespace {

constexpr double kSecondsOfDay = 86400;

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

}  // namespace

const PlanAnswer* Ladder::best(size_t index) {
  Candidate& candidate = see(index);
  if (!candidate.best && !candidate.search.finalists.empty())
    candidate.best = fastest_plan(scenario_of_(index), candidate.search);
  return candidate.best ? &*candidate.best : nullptr;
}

double Ladder::days(size_t index) {
  const PlanAnswer* answer = best(index);
  return answer ? training_days(scenario_of_(index).workload, answer->step_seconds()) : kNever;
}

std::optional<size_t> Ladder::first(double deadline) {
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
  return first_around_fastest_stop(deadline);
}

// Where no stop meets the deadline, only a neighbour of the fastest one can.
std::optional<size_t> Ladder::first_around_fastest_stop(double deadline) {
  for (const size_t stop : stops_) see(stop);
  const auto nearest = fastest(size());
  if (!nearest) return std::nullopt;
  const auto above = std::upper_bound(stops_.begin(), stops_.end(), *nearest);
  const auto here = std::lower_bound(stops_.begin(), stops_.end(), *nearest);
  const size_t end = above == stops_.end() ? size() : *above;
  for (size_t index = here == stops_.begin() ? 0 : *std::prev(here); index < end; ++index)
    if (meets(index, deadline)) return index;
  return std::nullopt;
}

std::optional<size_t> Ladder::fastest(size_t end) const {
  std::optional<size_t> fastest;
  for (const auto& [index, candidate] : seen_)
    if (index < end && candidate.days < (fastest ? seen_.at(*fastest).days : kNever))
      fastest = index;
  return fastest;
}

std::pair<size_t, double> Ladder::efficiency(size_t index) {
  size_t best = index;
  for (const auto& [other, candidate] : seen_)
    if (load_[other] / candidate.days > load_[best] / seen_.at(best).days) best = other;
  return {best, rate(index) / rate(best)};
}

Ladder::Candidate& Ladder::see(size_t index) {
  const auto known = seen_.find(index);
  if (known != seen_.end()) return known->second;
  const Scenario scenario = scenario_of_(index);
  Candidate candidate{search_plans(scenario, {}), kNever, std::nullopt};
  if (const auto& plans = candidate.search.finalists; !plans.empty())
    candidate.days = training_days(scenario.workload, plans.front().step_seconds);
  return seen_.emplace(index, std::move(candidate)).first->second;
}

// Simulates only where the closed form comes near.
bool Ladder::meets(size_t index, double deadline) {
  constexpr double kNear = 1.1;
  return see(index).days <= kNear * deadline && days(index) <= deadline;
}

// Every product at the datasheet's rate, and nothing else.
double Ladder::ideal_days(size_t index) const {
  const Scenario s = scenario_of_(index);
  const double flops = 3 * forward_flops_per_token(s.model, s.workload.seq, s.model.vocab);
  const double rate = s.cluster.device.peak(s.workload.precision) * s.cluster.gpus;
  return s.workload.tokens * flops / rate / kSecondsOfDay;
}

Ladder gpu_ladder(const Scenario& scenario) {
  std::vector<int> counts = SearchSpace(scenario, {}).usable_gpu_counts();
  // The ranks of a CPU are no machines that anybody rents by the node.
  const int node = scenario.cluster.device.is_cpu() ? 1 : scenario.cluster.gpus_per_node();
  std::erase_if(counts, [node](int count) { return count % node != 0; });
  if (counts.empty())
    throw engine::InputError(
        fmt::format("no plan of {} with a batch of {} fills whole nodes of {} GPUs; give another "
                    "--gbs or --gpus-per-node",
                    scenario.model.name, scenario.workload.gbs, scenario.cluster.gpus_per_node()));
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

}  // namespace tuner
