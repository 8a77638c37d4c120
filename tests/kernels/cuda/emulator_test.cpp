// The emulation of thread blocks: what its operations do, and that it finds planted faults.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/blocks/emulated_block.h"

namespace {

using namespace testing_support;
using kernels::bfloat16;
using kernels::cuda::Fragment;
using kernels::cuda::kWarpSize;

std::vector<EmulationMode> all_modes() {
  std::vector<EmulationMode> modes;
  for (const bool late : {true, false})
    for (const LaneOrder order : {LaneOrder::ascending, LaneOrder::descending, LaneOrder::shuffled})
      modes.push_back({order, late});
  return modes;
}

// A kernel of a test: `body(block)` on kN threads with some shared memory.
template <int kN, class F>
struct TestKernel {
  static constexpr int kThreads = kN;
  int64_t bytes;
  F body;
  int64_t shared_bytes() const { return bytes; }
  void operator()(const EmulatedBlock& block) const { body(block); }
};
template <int kN, class F>
void run(const EmulationMode& mode, int64_t bytes, F body, int64_t blocks = 1) {
  BlockEmulator emulator(mode);
  emulate_blocks(emulator, blocks, TestKernel<kN, F>{bytes, body});
}

// The fault of a kernel in one mode, or "" when it ran.
template <int kN, class F>
std::string fault_of(const EmulationMode& mode, int64_t bytes, F body) {
  try {
    run<kN>(mode, bytes, body);
  } catch (const KernelFault& fault) {
    return fault.what();
  }
  return "";
}

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  for (const EmulationMode& mode : all_modes()) {
    std::vector<int> count(3 * 96, 0);
    run<96>(
        mode, 0,
        [&](const EmulatedBlock& b) { ++count[static_cast<size_t>(b.index() * 96 + b.thread())]; },
        3);
    EXPECT_EQ(count, std::vector<int>(3 * 96, 1));
  }
}

TEST(Emulator, BarriersShareWhatIsInSharedMemory) {
  for (const EmulationMode& mode : all_modes())
    run<128>(mode, 128 * 4, [](const EmulatedBlock& b) {
      auto* slots = reinterpret_cast<float*>(b.shared());
      EXPECT_TRUE(std::isnan(slots[b.thread()]));
      b.sync();
      slots[b.thread()] = static_cast<float>(b.thread());
      b.sync();
      EXPECT_EQ(slots[127 - b.thread()], static_cast<float>(127 - b.thread()));
    });
}

TEST(Emulator, ReducesOverWarpsAndBlocks) {
  for (const EmulationMode& mode : all_modes())
    run<96>(mode, 3 * 4, [](const EmulatedBlock& b) {
      const float x = static_cast<float>(b.thread());
      const int warp = b.thread() / kWarpSize;
      EXPECT_EQ(kernels::cuda::lanes_sum(b, x), static_cast<float>(warp * 32 * 32 + 31 * 16));
      EXPECT_EQ(kernels::cuda::lanes_max(b, x, 4), static_cast<float>(b.thread() / 4 * 4 + 3));
      auto* slots = reinterpret_cast<float*>(b.shared());
      EXPECT_EQ(kernels::cuda::block_sum<96>(b, x, slots), 95.0f * 48);
    });
}

// Loads of every kind and a product against the definition, on exact values.
TEST(Emulator, MultipliesMatricesAsTensorCoresDo) {
  const auto value = [](int row, int col) {
    return static_cast<float>((row * 7 + col * 3) % 13 - 6);
  };
  run<32>({}, 3 * 16 * 32, [&](const EmulatedBlock& b) {
    // a [16, 16], b [16 = k, 8 | 8] and bᵀ, one behind the other.
    auto* data = reinterpret_cast<bfloat16*>(b.shared());
    for (int i = b.thread(); i < 256; i += 32) {
      data[i] = bfloat16(value(i / 16, i % 16));
      data[256 + i] = bfloat16(value(i / 16 + 5, i % 16));
      data[512 + i] = bfloat16(value(i % 16 + 5, i / 16));
    }
    b.sync_warp();
    const auto offset = [](int matrix, int row, int half) {
      return static_cast<uint32_t>(matrix * 512 + row * 32 + half * 16);
    };
    const int lane = b.thread();
    const Fragment left = b.load_matrices(offset(0, lane % 16, lane / 16));
    const Fragment right = b.load_matrices_transposed(offset(1, lane % 16, lane / 16));
    const Fragment same = b.load_matrices(offset(2, lane % 8 + lane / 16 * 8, lane / 8 % 2));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(right.r[i], same.r[i]) << lane << ", " << i;
    for (int half = 0; half < 2; ++half) {
      float sum[4] = {1, 2, 3, 4};
      b.multiply_add(sum, left, right.r[2 * half], right.r[2 * half + 1]);
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + 8 * (i / 2), col = 8 * half + 2 * (lane % 4) + i % 2;
        float want = static_cast<float>(i + 1);
        for (int k = 0; k < 16; ++k) want += value(row, k) * value(k + 5, col);
        EXPECT_EQ(sum[i], want) << "lane " << lane << ", element " << i;
      }
    }
  });
}

// What the tile of every lane holds, by the layout of the PTX ISA rather than by our own loads.
TEST(Emulator, FragmentsHaveTheDocumentedPlaces) {
  run<32>({}, 16 * 32, [](const EmulatedBlock& b) {
    auto* data = reinterpret_cast<bfloat16*>(b.shared());
    for (int i = b.thread(); i < 256; i += 32) data[i].bits = static_cast<uint16_t>(i);
    b.sync_warp();
    const int lane = b.thread(), group = lane >> 2, member = lane & 3;
    const Fragment f = b.load_matrices(static_cast<uint32_t>(lane % 16 * 32 + lane / 16 * 16));
    for (int i = 0; i < 8; ++i) {  // a0 … a7
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int col = member * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      const uint32_t word = f.r[i / 2];
      EXPECT_EQ(i % 2 == 0 ? word & 0xffff : word >> 16, static_cast<uint32_t>(row * 16 + col));
    }
  });
}

TEST(Emulator, CopiesArriveWhenTheyAreWaitedFor) {
  alignas(16) float source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const EmulationMode& mode : all_modes())
    run<32>(mode, 48, [&](const EmulatedBlock& b) {
      auto* slots = reinterpret_cast<float*>(b.shared());
      if (b.thread() == 0) {
        b.copy_async<16>(0, source, true);
        b.commit_copies();
        b.copy_async<16>(16, source + 4, true);
        b.copy_async<16>(32, source, false);
        b.commit_copies();
        b.wait_copies<1>();
        EXPECT_EQ(slots[3], 4);
        EXPECT_EQ(std::isnan(slots[4]), mode.late_copies);
        b.wait_copies<0>();
      }
      b.sync();
      EXPECT_EQ(slots[b.thread() % 8], source[b.thread() % 8]);
      EXPECT_EQ(slots[8], 0);
    });
}

// Planted faults.

TEST(EmulatorFinds, ABarrierThatSomeThreadsMiss) {
  for (const EmulationMode& mode : all_modes()) {
    EXPECT_NE(fault_of<64>(mode, 0,
                           [](const EmulatedBlock& b) {
                             if (b.thread() < 40) b.sync();
                           }),
              "");
    EXPECT_NE(fault_of<64>(mode, 0,
                           [](const EmulatedBlock& b) {
                             if (b.thread() < 32) b.sync();
                           }),
              "");
  }
}

TEST(EmulatorFinds, WarpCallsThatLanesMissOrMix) {
  for (const EmulationMode& mode : all_modes()) {
    EXPECT_NE(fault_of<32>(mode, 0,
                           [](const EmulatedBlock& b) {
                             if (b.thread() != 5) b.shuffle_xor(1.0f, 1);
                           }),
              "");
    EXPECT_NE(
        fault_of<32>(mode, 0,
                     [](const EmulatedBlock& b) { b.thread() < 16 ? b.sync() : b.sync_warp(); }),
        "");
    EXPECT_NE(
        fault_of<32>(mode, 0,
                     [](const EmulatedBlock& b) { b.shuffle_xor(1.0f, b.thread() < 16 ? 1 : 2); }),
        "");
  }
}

// Some order shows the race: a value that is not the right one.
template <int kN, class F>
bool some_order_differs(int64_t bytes, F body) {
  for (const EmulationMode& mode : all_modes()) {
    bool right = true;
    run<kN>(mode, bytes, [&](const EmulatedBlock& b) { right &= body(b); });
    if (!right) return true;
  }
  return false;
}

TEST(EmulatorFinds, AMissingBarrier) {
  const auto turned = [](bool fenced) {
    return [fenced](const EmulatedBlock& b) {
      auto* slots = reinterpret_cast<float*>(b.shared());
      slots[b.thread()] = static_cast<float>(b.thread());
      if (fenced) b.sync();
      return slots[63 - b.thread()] == static_cast<float>(63 - b.thread());
    };
  };
  EXPECT_TRUE(some_order_differs<64>(256, turned(false)));
  EXPECT_FALSE(some_order_differs<64>(256, turned(true)));
}

// The barrier that keeps a buffer from being written again while it is read.
TEST(EmulatorFinds, AMissingSecondBarrier) {
  const auto sums = [](bool fenced) {
    return [fenced](const EmulatedBlock& b) {
      auto* slots = reinterpret_cast<float*>(b.shared());
      bool right = true;
      for (int round = 0; round < 3; ++round) {
        slots[b.thread()] = static_cast<float>(round);
        b.sync();
        right &= slots[(b.thread() + 40) % 64] == static_cast<float>(round);
        if (fenced) b.sync();
      }
      return right;
    };
  };
  EXPECT_TRUE(some_order_differs<64>(256, sums(false)));
  EXPECT_FALSE(some_order_differs<64>(256, sums(true)));
}

TEST(EmulatorFinds, AMissingWaitForCopies) {
  alignas(16) static float source[4] = {1, 2, 3, 4};
  const auto reads = [](bool waits) {
    return [waits](const EmulatedBlock& b) {
      if (b.thread() == 0) b.copy_async<16>(0, source, true);
      b.commit_copies();
      if (waits) b.wait_copies<0>();
      b.sync();
      return reinterpret_cast<float*>(b.shared())[1] == 2;
    };
  };
  EXPECT_TRUE(some_order_differs<32>(16, reads(false)));
  EXPECT_FALSE(some_order_differs<32>(16, reads(true)));
}

// A copy into a buffer that others still read: on a GPU it may land at once.
TEST(EmulatorFinds, ACopyOverDataInUse) {
  alignas(16) static float source[4] = {1, 2, 3, 4};
  const auto reads = [](bool fenced) {
    return [fenced](const EmulatedBlock& b) {
      auto* slots = reinterpret_cast<float*>(b.shared());
      if (b.thread() == 0) slots[1] = 9;
      b.sync();
      const bool right = slots[1] == 9;
      if (fenced) b.sync();
      if (b.thread() == 0) b.copy_async<16>(0, source, true);
      b.commit_copies();
      b.wait_copies<0>();
      return right;
    };
  };
  EXPECT_TRUE(some_order_differs<64>(16, reads(false)));
  EXPECT_FALSE(some_order_differs<64>(16, reads(true)));
}

TEST(EmulatorFinds, AddressesOutsideSharedMemory) {
  alignas(16) static float source[8] = {};
  EXPECT_NE(
      fault_of<32>({}, 32, [](const EmulatedBlock& b) { b.copy_async<16>(32, source, true); }), "");
  EXPECT_NE(fault_of<32>({}, 32, [](const EmulatedBlock& b) { b.copy_async<16>(8, source, true); }),
            "");
  EXPECT_NE(
      fault_of<32>({}, 32, [](const EmulatedBlock& b) { b.copy_async<16>(0, source + 1, true); }),
      "");
  EXPECT_NE(fault_of<32>({}, 64, [](const EmulatedBlock& b) { b.load_matrices(64); }), "");
  EXPECT_EQ(fault_of<32>({}, 64, [](const EmulatedBlock& b) { b.load_matrices(48); }), "");
}

void write_beside(const EmulatedBlock& b) {
  if (b.thread() == 0) b.shared()[33] = std::byte{1};
}
TEST(EmulatorFinds, MoreSharedMemoryThanABlockCanHave) {
  const auto idle = [](const EmulatedBlock&) {};
  EXPECT_EQ(fault_of<32>({}, kernels::cuda::kMostSharedBytes, idle), "");
  EXPECT_NE(fault_of<32>({}, kernels::cuda::kMostSharedBytes + 1, idle).find("shared memory"),
            std::string::npos);
}

TEST(EmulatorFinds, WritesBesideSharedMemory) {
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_DEATH(run<32>({}, 32, write_beside), "use-after-poison");
#else
  EXPECT_NE(fault_of<32>({}, 32, write_beside), "");
#endif
}

// A kernel that failed leaves the emulator as good as new.
TEST(Emulator, GoesOnAfterAFault) {
  BlockEmulator emulator{EmulationMode{}};
  const auto kernel = [](bool fails) {
    const auto body = [fails](const EmulatedBlock& b) {
      if (!fails || b.thread() < 7) b.sync();
    };
    return TestKernel<64, decltype(body)>{0, body};
  };
  EXPECT_THROW(emulate_blocks(emulator, 1, kernel(true)), KernelFault);
  EXPECT_NO_THROW(emulate_blocks(emulator, 1, kernel(false)));
}

}  // namespace
