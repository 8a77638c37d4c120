// What one rank of a serving job does: generate or score the job's requests, and time them.
#pragma once
#include "engine/worker/rank_run.h"

namespace engine {

// As run_rank, for a job with `serving`. Events beside those of a training: "token" {request,
// text}, "finished" {request, finish, tokens, text, seconds}. Asked to stop, it cancels what runs,
// tells so, and throws Interrupted. A phantom rank runs a trial by itself: its times are those of
// its own work, as if it never waited for a neighbour.
Outcome run_serving_rank(const Job& job, Device& device, Communicator& ranks,
                         const RankOptions& options);

}  // namespace engine
