// Ranks of tests on the CPU, as threads.
#include "engine/comm/local_communicator.h"
#include "tests/support/ranks.h"

namespace test_ranks {

using namespace engine;

void run(int size, const std::function<void(Device&, Communicator&)>& body) {
  run_local(size, [&](Communicator& ranks) {
    const auto device = make_device();
    body(*device, ranks);
  });
}

std::unique_ptr<Device> make_device(int threads) { return make_cpu_device(threads); }

int lattice_share() { return 1; }

bool reduce_in_rank_order() { return true; }

}  // namespace test_ranks
