// Ranks of tests as threads with a GPU each, which talk through NCCL.
#include <cstdlib>

#include "engine/comm/local_communicator.h"
#include "engine/comm/nccl/run_nccl.h"
#include "tests/support/ranks.h"

namespace test_ranks {

using namespace engine;

void run(int size, const std::function<void(Device&, Communicator&)>& body) {
  run_local(size, [&](Communicator& others) {
    CudaDevice device(others.rank());
    NcclOptions options;
    options.timeout = std::chrono::minutes(2);
    run_nccl(device, others, options, [&](Communicator& ranks) { body(device, ranks); });
  });
}

std::unique_ptr<Device> make_device(int) { return std::make_unique<CudaDevice>(0); }

int lattice_share() { return std::getenv("WHOLE_LATTICE") != nullptr ? 1 : 12; }

bool reduce_in_rank_order() { return false; }

}  // namespace test_ranks
