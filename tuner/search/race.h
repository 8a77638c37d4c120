// Race: finds the best of many predicted jobs by trials of as few as that takes.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tuner/profile/profiler.h"
#include "tuner/profile/statistics.h"
#include "tuner/search/race_account.h"
#include "tuner/search/residual_model.h"
#include "tuner/search/standing.h"

namespace tuner {

struct MeasureProgress {
  int done = 0, total = 0;  // plans of the current round
  int failures = 0;
  double best_seconds = 0;  // 0 = none yet
  double spent_seconds = 0;
  double budget_seconds = 0;
  std::string now;  // the plan in progress
};

struct MeasureOptions {
  int64_t most_plans = 8;
  double budget_seconds = 120;
  int at_once = 1;  // trials side by side
  const std::atomic<int>* stop = nullptr;
  std::function<void(const MeasureProgress&)> progress = {};
};

// Timed steps of the first trial of a plan.
inline constexpr int64_t kFirstSamples = 3;
inline constexpr int64_t kAllSamples = std::numeric_limits<int64_t>::max();

// Whether trials ended without telling what they were for: a time, or that memory lacks.
bool is_lost(const engine::Outcome& outcome);

struct Racer {
  std::string name;
  engine::Job job;
  ResidualModel::Row features = {};
  double seconds = 0;  // predicted, of a step
  Standing predicted;
  bool is_seeded = false;  // is measured whatever its chance

  bool tried = false;
  Measurement measurement = {};

  bool timed() const { return tried && !measurement.samples.empty() && !failed(); }
  bool failed() const;
  // Of the first samples only, so that a repetition that recalls more decides alike.
  double median(int64_t samples = kAllSamples) const { return summary(samples).median; }
  // Standard deviation of the logarithm of that median.
  double noise(int64_t samples = kAllSamples) const;

 private:
  SampleSummary summary(int64_t samples) const;
};

// The first racer and the seeded ones first; then, one by one, the racer that could be the best
// after the correction by what was measured so far, until none has a real chance. The better half
// is measured again with twice the samples, and again, so that bad plans cost little (successive
// halving: Jamieson and Talwalkar 2016).
class Race {
 public:
  // What is known of a timed racer after that many samples.
  using StandingOf = std::function<Standing(size_t racer, int64_t samples)>;

  // `sigma` and `correlation` as ResidualModel has them. Racers are called by their places.
  Race(std::vector<Racer>& racers, double sigma, double correlation, StandingOf standing,
       Profiler& profiler, const MeasureOptions& options);
  RaceAccount run();

  // By everything that was measured; nothing where nothing was.
  ResidualModel residuals() const;
  std::optional<size_t> best() const;

 private:
  bool over() const { return account_.interrupted || account_.budget_ended; }
  std::optional<size_t> best(int64_t samples) const;
  double seconds_to_beat(const Racer& racer, int64_t samples) const;
  std::optional<size_t> next(size_t done, const std::vector<size_t>& chosen_before) const;
  void choose();
  void halve();
  TrialLimits limits_of(const Racer& racer, int64_t samples, double budget_seconds) const;
  void measure(const std::vector<size_t>& places, int64_t samples, size_t done, size_t total);
  void take_result(size_t place, Measurement result);
  void tell(const Racer& racer, size_t done, size_t total, int64_t samples) const;

  std::vector<Racer>& racers_;
  double sigma_, correlation_;
  StandingOf standing_;
  Profiler& profiler_;
  const MeasureOptions& options_;
  RaceAccount account_;
};

}  // namespace tuner
