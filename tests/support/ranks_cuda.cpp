// Ranks of tests as threads that share a GPU.
#include <cstdlib>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/local_communicator.h"
#include "tests/support/ranks.h"

namespace test_ranks {

using namespace engine;

void run(int size, const std::function<void(Device&, Communicator&)>& body) {
  const auto share = [&](Communicator& ranks) {
    CudaDevice device(0, size);
    body(device, ranks);
  };
  run_local(size, share, shared_gpu_memory());
}

std::unique_ptr<Device> make_device(int) { return std::make_unique<CudaDevice>(0); }

int lattice_share() { return std::getenv("WHOLE_LATTICE") != nullptr ? 1 : 6; }

bool reduce_in_rank_order() { return true; }

}  // namespace test_ranks
