// The options that say whether, where and how long plans are measured.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tuner/cli/command.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/profile/launcher.h"
#include "tuner/search/race.h"

namespace tuner {

// The job of a trial in the commands of a dry run.
inline constexpr auto kJobFile = "JOB.json";
inline constexpr auto kJobFileIs =
    "JOB.json stands for the job of a trial, which is written when the trial begins.";

// --device --measure --measure-budget --launcher --slurm-… --calibrate --dry-run --resume
std::vector<Option> measure_options();

struct MeasureRequest {
  TrialDevice device = TrialDevice::cpu;
  bool this_host = false;  // this machine is the cluster
  int64_t most_plans = 0;  // 0 = nothing is measured
  bool automatic = false;  // their number
  double budget_seconds = 0;
  LauncherKind launcher = LauncherKind::local;
  SlurmOptions slurm;
  int at_once = 1;  // trials side by side
  bool dry_run = false;
  bool calibrate = true;  // when the profile of this machine is missing or stale
};

// Throws InputError where the options contradict each other.
MeasureRequest measure_request_of(const Arguments& arguments);

// What the search is told: the signals end it and the line tells its progress, so that both must
// outlive it.
MeasureOptions measure_options_of(const MeasureRequest& request, const StopSignals& signals,
                                  ProgressLine& line);

}  // namespace tuner
