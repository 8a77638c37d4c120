// What the ranks of a run used of their memory, told to the one that reports.
#pragma once
#include "engine/comm/world.h"
#include "engine/device/device.h"
#include "engine/plan/outcome.h"

namespace engine {

// The most of each use on any rank of a stage; the peak is that of all uses together. All ranks
// call it; `alone` where the others are phantoms. `ranks_in_process` share what the process holds.
MemoryOutcome gather_memory(World& world, const Device& device, int ranks_in_process, bool alone);

}  // namespace engine
