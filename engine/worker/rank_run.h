// What one rank of a job does: train the job's steps or serve, and count what they cost.
#pragma once
#include <atomic>
#include <string>

#include "engine/base/errors.h"
#include "engine/comm/communicator.h"
#include "engine/device/device.h"
#include "engine/plan/job.h"
#include "engine/plan/outcome.h"
#include "engine/worker/event_log.h"

namespace engine {

// The loss is no number any more.
struct BadNumbers : Error {
  explicit BadNumbers(const std::string& message) : Error(ExitCode::partial, message) {}
};

// Asked to stop by a signal; the step in progress was finished.
struct Interrupted : Error {
  Interrupted() : Error(ExitCode::terminated, "asked to stop") {}
};

struct RankOptions {
  const std::atomic<bool>* stop = nullptr;  // read by rank 0, between steps
  EventLog* events = nullptr;               // of the rank that reports
  int ranks_in_process = 1;
};

// Trains or serves on `device` as one of `ranks`, of job.plan.world() ranks (phantoms but for one
// when job.phantom_rank >= 0), and returns the Outcome: complete on the rank that reports (0, or
// the one that is no phantom), empty on others. Throws BadNumbers, Interrupted, OutOfMemory and
// what else went wrong.
Outcome run_rank(const Job& job, Device& device, Communicator& ranks, const RankOptions& options);

// Into one file, which is whole at any time. Throws Error (storage).
void write_outcome(const Outcome& outcome, const std::string& path);

}  // namespace engine
