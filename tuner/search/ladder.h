// Ladder: numbers of GPUs or sizes of a model, in the order in which trainings get shorter.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tuner/model/scenario.h"
#include "tuner/search/recommendation.h"
#include "tuner/search/search.h"

namespace tuner {

constexpr double kNever = std::numeric_limits<double>::infinity();  // days where no plan fits

// The order holds but for local exceptions, since divisors decide which plans there are. What was
// asked is kept.
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
  const PlanAnswer* best(size_t index);
  double days(size_t index);
  // The first candidate that meets the deadline; nullopt when none does. Every candidate is asked
  // that would be quick enough with GPUs used a little better than at any stop.
  std::optional<size_t> first(double deadline_days);
  // The candidate before `end` with the shortest training of those seen; nullopt when none fitted.
  std::optional<size_t> fastest(size_t end) const;
  // The candidate seen that uses its GPUs best, and how well `index` uses them relative to it.
  std::pair<size_t, double> efficiency(size_t index);

 private:
  struct Candidate {
    SearchResult search;
    double days = kNever;  // by the closed form, which is quick
    std::optional<PlanAnswer> best;
  };

  Candidate& see(size_t index);
  double rate(size_t index) { return load_[index] / see(index).days; }
  bool meets(size_t index, double deadline_days);
  double ideal_days(size_t index) const;
  std::optional<size_t> first_around_fastest_stop(double deadline_days);

  std::vector<double> load_;
  std::vector<size_t> stops_;
  std::function<Scenario(size_t)> scenario_of_;
  std::map<size_t, Candidate> seen_;
};

// Numbers of GPUs in whole nodes that some plan of the scenario's model can use, ascending; of a
// CPU any number of ranks.
// Throws InputError when there is none.
Ladder gpu_ladder(const Scenario& scenario);
// Models of 10t to 1m parameters in the proportions of GPT-3 on the scenario's GPUs, descending.
Ladder parameter_ladder(const Scenario& scenario);

}  // namespace tuner
