// What one rank of a tuning job does: find virtual tokens for its tasks and write their files.
#pragma once
#include "engine/worker/rank_run.h"

namespace engine {

// As run_rank, for a job with `tuning`. Asked to stop, it writes what it has and throws
// Interrupted.
Outcome run_tuning_rank(const Job& job, Device& device, Communicator& ranks,
                        const RankOptions& options);

}  // namespace engine
