// Ranks as threads of this process, which read each other's memory directly.
#pragma once
#include <functional>

#include "engine/comm/communicator.h"

namespace engine {

// Runs body on `size` ranks, each a thread, and returns when all have ended. Waiting ranks sleep.
// When one rank throws, the verbs of all others throw too, so that all end at once, and the first
// exception is thrown again here. `memory` is that of all ranks; devices are threads' own affair.
void run_local(int size, const std::function<void(Communicator&)>& body,
               const std::shared_ptr<const RankMemory>& memory = host_memory());

}  // namespace engine
