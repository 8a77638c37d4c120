// Which racer is measured next, and for how long.
#include "tuner/search/race.h"

#include <algorithm>
#include <cmath>

namespace tuner {

using engine::OutcomeStatus;

namespace {

constexpr int kRounds = 3;           // of which each doubles the samples of the better half
constexpr size_t kFewestRacers = 3;  // before a small chance ends the choosing
constexpr double kSmallChance = 0.02;
constexpr double kHopeless = 3;        // times the seconds that would be as good as the best
constexpr double kLeastDeadline = 60;  // seconds
constexpr double kPatience = 30;       // times the time expected

}  // namespace

bool is_lost(const engine::Outcome& outcome) {
  using Status = engine::OutcomeStatus;
  const Status status = outcome.status;
  return status == Status::crashed || status == Status::timed_out || status == Status::rejected ||
         (status == Status::interrupted && outcome.samples_seconds.empty());
}

bool Racer::failed() const {
  const OutcomeStatus status = measurement.outcome.status;
  return tried && status != OutcomeStatus::ok && status != OutcomeStatus::interrupted;
}

SampleSummary Racer::summary(int64_t samples) const {
  std::vector<double> first = measurement.samples;
  if (static_cast<int64_t>(first.size()) > samples) first.resize(static_cast<size_t>(samples));
  return summarize_samples(first);
}

double Racer::noise(int64_t samples) const { return log_sigma_of(summary(samples).interval); }

Race::Race(std::vector<Racer>& racers, double sigma, double correlation, StandingOf standing,
           Profiler& profiler, const MeasureOptions& options)
    : racers_(racers),
      sigma_(sigma),
      correlation_(correlation),
      standing_(std::move(standing)),
      profiler_(profiler),
      options_(options) {}

RaceAccount Race::run() {
  choose();
  halve();
  return account_;
}

ResidualModel Race::residuals() const {
  ResidualModel model(sigma_, correlation_);
  for (const Racer& racer : racers_)
    if (racer.timed()) {
      model.add(racer.features, racer.seconds, racer.median(kFirstSamples),
                racer.noise(kFirstSamples));
    }
  return model;
}

std::optional<size_t> Race::best() const { return best(kAllSamples); }

std::optional<size_t> Race::best(int64_t samples) const {
  std::optional<size_t> best;
  for (size_t i = 0; i < racers_.size(); ++i) {
    if (!racers_[i].timed()) continue;
    if (!best || standing_(i, samples).is_better_than(standing_(*best, samples))) best = i;
  }
  return best;
}

// A step as long as this would make it as good as the best one; 0 when nothing was timed.
double Race::seconds_to_beat(const Racer& racer, int64_t samples) const {
  const std::optional<size_t> best = this->best(samples);
  return best ? racer.seconds * racer.predicted.room_to(standing_(*best, samples)) : 0;
}

// The racer with the best chance to beat what was measured, apart from those already chosen;
// nothing when none has a real one.
std::optional<size_t> Race::next(size_t done, const std::vector<size_t>& chosen_before) const {
  const ResidualModel model = residuals();
  const std::optional<size_t> best = this->best(kFirstSamples);
  std::optional<size_t> chosen;
  double most = best && done >= kFewestRacers ? kSmallChance : -1;
  for (size_t i = 0; i < racers_.size(); ++i) {
    const Racer& racer = racers_[i];
    if (racer.tried || std::count(chosen_before.begin(), chosen_before.end(), i) > 0) continue;
    if (!best) return i;  // the predicted order
    const auto [log_factor, sigma] = model.correction(racer.features);
    const double room = racer.predicted.room_to(standing_(*best, kFirstSamples));
    const double ahead = std::log(room) - log_factor;
    const double spread = std::hypot(sigma, racers_[*best].noise(kFirstSamples));
    const double chance = 0.5 * std::erfc(-ahead / spread / std::sqrt(2.0));
    if (chance <= most) continue;
    most = chance;
    chosen = i;
  }
  return chosen;
}

void Race::choose() {
  const auto most = std::min(racers_.size(), static_cast<size_t>(options_.most_plans));
  const auto at_once = static_cast<size_t>(options_.at_once);
  size_t done = 0;
  const auto take = [&](const std::vector<size_t>& places) {
    measure(places, kFirstSamples, done, most);
    done += places.size();
  };
  if (most > 0) take({0});
  for (size_t i = 0; i < racers_.size(); ++i)
    if (done < most && racers_[i].is_seeded && !racers_[i].tried && !over()) take({i});
  while (done < most && !over()) {
    std::vector<size_t> chosen;
    while (chosen.size() < std::min(at_once, most - done)) {
      const std::optional<size_t> one = next(done + chosen.size(), chosen);
      if (!one) break;
      chosen.push_back(*one);
    }
    if (chosen.empty()) return;
    take(chosen);
  }
}

void Race::halve() {
  std::vector<size_t> left;
  for (size_t i = 0; i < racers_.size(); ++i)
    if (racers_[i].timed()) left.push_back(i);
  const auto at_once = static_cast<size_t>(options_.at_once);
  int64_t samples = kFirstSamples;
  for (int round = 1; round < kRounds && left.size() > 1; ++round) {
    std::stable_sort(left.begin(), left.end(), [&](size_t a, size_t b) {
      return standing_(a, samples).is_better_than(standing_(b, samples));
    });
    left.resize((left.size() + 1) / 2);
    samples *= 2;
    for (size_t i = 0; i < left.size() && !over(); i += at_once) {
      const auto first = left.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(at_once, left.size() - i));
      measure({first, first + count}, samples, i, left.size());
    }
    std::erase_if(left, [&](size_t place) { return !racers_[place].timed(); });
  }
}

TrialLimits Race::limits_of(const Racer& racer, int64_t samples, double budget_seconds) const {
  const double to_beat = seconds_to_beat(racer, samples);
  TrialLimits limits;
  limits.deadline_seconds = std::max(
      kLeastDeadline, kPatience * std::max(to_beat, racer.seconds) * static_cast<double>(samples));
  limits.budget_seconds = budget_seconds;
  limits.stop = options_.stop;
  limits.hopeless_seconds = racer.is_seeded || racer.timed() ? 0 : kHopeless * to_beat;
  return limits;
}

// Side by side.
void Race::measure(const std::vector<size_t>& places, int64_t samples, size_t done, size_t total) {
  const double remaining = options_.budget_seconds - account_.spent_seconds;
  if (options_.stop != nullptr && *options_.stop != 0) account_.interrupted = true;
  if (remaining <= 0) account_.budget_ended = true;
  if (over()) return;
  tell(racers_[places.front()], done, total, samples);
  const double share = remaining / static_cast<double>(places.size());
  std::vector<TrialRequest> requests;
  for (const size_t place : places)
    requests.push_back({racers_[place].job, limits_of(racers_[place], samples, share)});
  std::vector<Measurement> results = profiler_.measure_together(std::move(requests), samples);
  for (const Measurement& result : results) {
    account_.new_trials += result.new_trials;
    account_.spent_seconds += result.spent_seconds;
  }
  if (options_.stop != nullptr && *options_.stop != 0) account_.interrupted = true;
  if (account_.spent_seconds >= options_.budget_seconds) account_.budget_ended = true;
  for (size_t i = 0; i < places.size(); ++i) take_result(places[i], std::move(results[i]));
}

void Race::take_result(size_t place, Measurement result) {
  // A trial that we cut off before its first step says nothing.
  if (over() && result.samples.empty() && result.outcome.status == OutcomeStatus::interrupted)
    return;
  Racer& racer = racers_[place];
  if (!racer.tried) account_.order.push_back(place);
  racer.tried = true;
  const int before = racer.measurement.new_trials;
  racer.measurement = std::move(result);
  racer.measurement.new_trials += before;
}

void Race::tell(const Racer& racer, size_t done, size_t total, int64_t samples) const {
  if (!options_.progress) return;
  const auto failures =
      std::count_if(racers_.begin(), racers_.end(), [](const Racer& one) { return one.failed(); });
  const std::optional<size_t> best = this->best(samples);
  options_.progress({static_cast<int>(done), static_cast<int>(total), static_cast<int>(failures),
                     best ? racers_[*best].median(samples) : 0, account_.spent_seconds,
                     options_.budget_seconds, racer.name});
}

}  // namespace tuner
