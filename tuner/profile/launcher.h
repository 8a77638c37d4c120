// Launcher: starts the worker on one job as a process group of its own and tells how it ended.
#pragma once
#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan/job.h"
#include "engine/plan/outcome.h"
#include "tuner/profile/slurm.h"
#include "tuner/profile/worker_program.h"

namespace tuner {

enum class LauncherKind : uint8_t {
  local,   // one process; its ranks are threads
  mpirun,  // a process a rank, on this machine
  slurm,   // a batch job; a process a rank, on nodes that share the folder of trials
};

struct Launcher {
  LauncherKind kind = LauncherKind::local;
  std::string worker;  // path of the program
  SlurmOptions slurm = {};

  // With the worker for the device (find_worker). Throws Error (environment) when it, mpirun or the
  // commands of Slurm cannot be run.
  static Launcher find(LauncherKind kind, TrialDevice device = TrialDevice::cpu);
  std::vector<std::string> command(int ranks, const std::string& job_path,
                                   double deadline_seconds = 600) const;
  // As it stands in the environment of trials.
  std::string description() const;
};

struct TrialLimits {
  double deadline_seconds = 600;  // of running, not of waiting in a queue
  // The budget of all trials: what is cut off by it is interrupted, not timed out.
  double budget_seconds = 1e9;
  // Set by a signal: the trial is ended at once, as interrupted.
  const std::atomic<int>* stop = nullptr;
  // Steps beyond this end the trial as interrupted: it has lost. 0 = none.
  double hopeless_seconds = 0;
  // Between asking the worker to end, which finishes its step, and killing it.
  double grace_seconds = 2;
  // Told of each event of the worker soon after it happened.
  std::function<void(const nlohmann::json&)> on_event = {};
};

struct TrialEnd {
  engine::Outcome outcome;      // always with a status, and a reason unless ok
  std::vector<double> samples;  // seconds of the steps behind job.warmup_steps, also of a failure
  double wall_seconds = 0;      // from start to end, without waiting in a queue
  int exit_code = -1;           // the worker's; -1 when a signal ended it or it did not start
  bool by_chance = false;       // a repetition may well succeed
  bool gave_up = false;         // hopeless_seconds
};

// Runs the job in `folder`, which exists: job.json, command, events.jsonl (behind those of earlier
// jobs), outcome.json, stdout and stderr lie there afterwards. When this returns, no process of the
// group is left (or its batch job is cancelled); should this program be killed, the worker ends,
// too. Everything that goes wrong inside is an Outcome; throws Error (storage) when the folder
// cannot be written.
TrialEnd run_trial(const Launcher& launcher, engine::Job job, const std::string& folder,
                   const TrialLimits& limits);

}  // namespace tuner
