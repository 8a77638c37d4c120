// Launcher: starts the worker on one job as a process group of its own and tells how it ended.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/outcome.h"
#include "tuner/profile/worker_program.h"

namespace tuner {

enum class LauncherKind : uint8_t {
  local,   // one process; its ranks are threads
  mpirun,  // a process a rank, on this machine
};

struct Launcher {
  LauncherKind kind = LauncherKind::local;
  std::string worker;  // path of the program

  // With the worker for the device (find_worker). Throws Error (environment) when it or mpirun
  // cannot be run.
  static Launcher find(LauncherKind kind, TrialDevice device = TrialDevice::cpu);
  std::vector<std::string> command(int ranks, const std::string& job_path) const;
};

struct TrialLimits {
  double deadline_seconds = 600;
  // The budget of all trials: what is cut off by it is interrupted, not timed out.
  double budget_seconds = 1e9;
  // Set by a signal: the trial is ended at once, as interrupted.
  const std::atomic<int>* stop = nullptr;
  // Steps beyond this end the trial as interrupted: it has lost. 0 = none.
  double hopeless_seconds = 0;
};

struct TrialEnd {
  engine::Outcome outcome;      // always with a status, and a reason unless ok
  std::vector<double> samples;  // seconds of the steps behind job.warmup_steps, also of a failure
  double wall_seconds = 0;      // from start to end
  bool died_by_signal = false;  // of nobody's asking
  bool gave_up = false;         // hopeless_seconds
};

// Runs the job in `folder`, which exists: job.json, command, events.jsonl, outcome.json, stdout and
// stderr lie there afterwards. When this returns, no process of the group is left; should this
// program be killed, the system kills the worker. Everything that goes wrong inside is an Outcome;
// throws Error (storage) when the folder cannot be written.
TrialEnd run_trial(const Launcher& launcher, engine::Job job, const std::string& folder,
                   const TrialLimits& limits);

}  // namespace tuner
