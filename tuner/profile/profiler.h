// Profiler: measures jobs by trials, stores each before the next begins, and recalls what is
// stored.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/outcome.h"
#include "tuner/profile/fingerprint.h"
#include "tuner/profile/launcher.h"
#include "tuner/store/store.h"

namespace tuner {

// Equal for jobs that measure the same: steps, paths and the model's name do not count.
std::string hash_of(const engine::Job& job);

// The environment of trials of this launcher.
Fingerprint environment_of(const Host& host, const Launcher& launcher);

// Where trials leave their files: $XDG_STATE_HOME/autotune/trials or below ~/.local/state.
std::string trials_folder();

struct Measurement {
  // Of all samples together: step_seconds is their median behind the warm-up, the interval that of
  // the median. Memory, traffic and loss are those of the newest complete trial.
  engine::Outcome outcome;
  std::vector<double> samples;  // in the order they were taken
  std::vector<int64_t> trials;  // they come from, in the store
  int new_trials = 0;           // run now
  double spent_seconds = 0;     // by these
};

struct TrialRequest {
  engine::Job job;
  TrialLimits limits;
};

class Profiler {
 public:
  // `run` is the run of the store that the trials belong to. Adds the environment to the store.
  Profiler(Store& store, int64_t run, Launcher launcher, const Host& host);

  // At least `samples` timed steps of the job; of those that are stored no more are taken. A
  // plan that was out of memory or gave bad numbers before is not tried again. A worker that dies
  // of a signal gets a second chance. job.steps and paths are set here; job.warmup_steps stay.
  // Throws Error (storage).
  Measurement measure(engine::Job job, int64_t samples, const TrialLimits& limits);

  // The same for several jobs side by side, in their order. That is for launchers that give each a
  // place of its own: on one machine they would take each other's time.
  std::vector<Measurement> measure_together(std::vector<TrialRequest> requests, int64_t samples);

  // Hash of the fingerprint.
  const std::string& environment() const { return fingerprint_.hash; }
  const Launcher& launcher() const { return launcher_; }

 private:
  Measurement recall(const std::string& hash) const;
  struct Trial;  // that is to run or runs
  Trial prepare(TrialRequest request, int64_t samples) const;
  void start(Trial& trial, bool alone);
  void finish(Trial& trial);

  Store& store_;
  int64_t run_;
  Launcher launcher_;
  Fingerprint fingerprint_;
};

}  // namespace tuner
