// What the worker for GPUs runs ranks on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/worker/backend.h"

namespace engine {
namespace {

// Ranks that share a GPU have equal parts of it, even if the first uses its own at once.
TEST(CudaBackend, SharesTheGpuInEqualParts) {
  constexpr int kRanks = 8;
  int64_t capacities[kRanks] = {};
  for (int turn = 0; turn < 5; ++turn) {
    run_thread_ranks(kRanks, [&](Device& device, Communicator& ranks) {
      capacities[ranks.rank()] = device.capacity();
      const Buffer own(device, device.capacity() / 2, MemoryUse::workspace);
      ranks.barrier();
    });
    for (const int64_t capacity : capacities) EXPECT_EQ(capacity, capacities[0]);
  }
}

TEST(CudaBackend, AsksTheLibrariesForWhatRanksNeed) {
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
  EXPECT_STREQ(std::getenv("NCCL_P2P_DIRECT_DISABLE"), "1");
}

}  // namespace
}  // namespace engine
