// Worker: runs one job on thread ranks, MPI ranks or alone as a phantom, and writes its Outcome.
#pragma once
#include <atomic>
#include <iosfwd>
#include <string>

#include "engine/base/errors.h"
#include "engine/worker/backend.h"

namespace engine {

struct WorkerOptions {
  std::string job_path;
  int threads = 0;                          // thread ranks; 0 = as many as the plan has
  const std::atomic<bool>* stop = nullptr;  // set when a signal asked to stop
  FileRank file_rank;                       // with a rank: this process is one of many
};

// Reads the arguments: JOB.json [--threads N | --rank R --rendezvous FILE [--rank-here L]]. Throws
// InputError.
WorkerOptions parse_worker_arguments(int count, const char* const* arguments);

// Everything from the job file to the Outcome, which is written whatever happens, as far as the job
// names a place. What went wrong is one sentence on `errors`, too. Returns the exit code: found,
// nothing_fits (out of memory), partial (bad numbers), usage, environment, storage, terminated or
// internal.
ExitCode run_worker(const WorkerOptions& options, std::ostream& errors);

// Writes {"worker": name, "mpi": bool, "backend": describe_backend()} as one line of JSON.
ExitCode describe_worker(std::ostream& out);

}  // namespace engine
