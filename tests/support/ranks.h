// The kind of ranks and devices that a test executable is linked with: one of ranks_*.cpp.
#pragma once
#include <functional>
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/device/device.h"

namespace test_ranks {

// Runs body on `size` ranks, each a thread with a device of its own.
void run(int size, const std::function<void(engine::Device&, engine::Communicator&)>& body);

// A device alone; a CPU has that many threads.
std::unique_ptr<engine::Device> make_device(int threads = 1);

// Of how many plans one is run where all would take long; 1 with WHOLE_LATTICE in the environment.
int lattice_share();

// Whether reductions combine in rank order, so that every plan gives the same bits.
bool reduce_in_rank_order();

}  // namespace test_ranks
