// Slurm: a trial as a batch job, followed by scontrol and cancelled by scancel.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/profile/execution.h"

namespace tuner {

// What the user asks of the scheduler. Empty texts and zeros: its defaults.
struct SlurmOptions {
  std::string partition = {};
  std::string account = {};
  double time_seconds = 0;              // limit of a job; 0 = the deadline of its trial
  double wait_seconds = 3600;           // in the queue, after which a job is cancelled
  std::vector<std::string> flags = {};  // of sbatch, as they are
  int ranks_per_node = 8;
};

// The job as scontrol shows it. Clusters without accounting know it for some minutes after its end;
// sacct is not asked.
struct SlurmJob {
  std::string state;   // "PENDING", "RUNNING", "NODE_FAIL", …; empty: Slurm knows no such job
  std::string reason;  // "Resources"; of a job that waits or failed
  std::string nodes;
  std::string exit_code;  // "7:0": code and signal

  bool is_waiting() const;
  bool has_ended() const;
};
SlurmJob parse_scontrol(std::string_view line);  // of `scontrol -o show job ID`

// sbatch and its arguments: `ranks` of `worker`, by srun inside. Output goes to the job's folder.
std::vector<std::string> sbatch_command(const SlurmOptions& options, int ranks,
                                        const std::string& worker, const std::string& job_path,
                                        double deadline_seconds);

// Submits. A submission that is refused is a failure of the execution. The job is cancelled when
// the execution is destroyed, and also when this program is killed.
std::unique_ptr<Execution> start_slurm(const SlurmOptions& options,
                                       const std::vector<std::string>& command,
                                       const std::string& folder);

}  // namespace tuner
