// Memory of a device: metering, the capacity, the arena.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/device/arena.h"
#include "engine/device/device.h"

namespace {

using engine::Buffer;
using engine::MemoryUse;

TEST(Meter, CountsRequestedBytesByUse) {
  const auto device = engine::make_cpu_device(1);
  const engine::Meter& meter = device->meter();
  const Buffer weights(*device, 1001, MemoryUse::parameter);
  {
    const Buffer a(*device, 10, MemoryUse::activation), b(*device, 7, MemoryUse::activation);
    EXPECT_EQ(meter.in_use(MemoryUse::activation), 17);
    EXPECT_EQ(meter.in_use(), 1018);
  }
  const Buffer scratch(*device, 5, MemoryUse::workspace);
  EXPECT_EQ(meter.in_use(), 1006);
  EXPECT_EQ(meter.peak(), 1018);
  EXPECT_EQ(meter.peak(MemoryUse::activation), 17);
  EXPECT_EQ(meter.peak(MemoryUse::workspace), 5);
  // At the moment of the peak there was no workspace.
  EXPECT_EQ(meter.at_peak(MemoryUse::workspace), 0);
  EXPECT_EQ(meter.at_peak(MemoryUse::parameter) + meter.at_peak(MemoryUse::activation), 1018);
  device->meter().restart();
  EXPECT_EQ(meter.peak(), 1006);
  EXPECT_EQ(meter.peak(MemoryUse::activation), 0);
}

TEST(Capacity, IsFilledToTheLastByteAndNotBeyond) {
  const auto device = engine::make_cpu_device(1);
  device->set_capacity(1000);
  const Buffer most(*device, 900, MemoryUse::parameter);
  try {
    const Buffer more(*device, 101, MemoryUse::activation);
    FAIL() << "more than the capacity was given";
  } catch (const engine::OutOfMemory& error) {
    EXPECT_EQ(error.requested_bytes(), 101);
    EXPECT_EQ(error.in_use_bytes(), 900);
    EXPECT_EQ(error.capacity_bytes(), 1000);
    EXPECT_EQ(error.use(), MemoryUse::activation);
  }
  EXPECT_EQ(device->meter().in_use(), 900);  // the refused one is not counted
  const Buffer rest(*device, 100, MemoryUse::activation);
  EXPECT_EQ(device->meter().in_use(), 1000);
}

TEST(Capacity, TheMachinesOwnLimitIsTheSameError) {
  const auto device = engine::make_cpu_device(1);
  EXPECT_THROW(Buffer(*device, int64_t{1} << 55, MemoryUse::parameter), engine::OutOfMemory);
  EXPECT_EQ(device->meter().in_use(), 0);
}

TEST(Arena, ReusesWhatIsGivenBack) {
  engine::Arena arena;
  void* a = arena.allocate(1000);
  void* b = arena.allocate(1000);
  void* c = arena.allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  arena.release(a, 1000);
  arena.release(b, 1000);
  EXPECT_EQ(arena.allocate(2000), a);  // the neighbours have become one block
  arena.release(c, 1000);
}

// Blocks of many sizes, freed in another order, never overlap.
TEST(Arena, BlocksDoNotOverlap) {
  engine::Arena arena;
  struct Block {
    unsigned char* data;
    int64_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 400; ++i) {
    const int64_t bytes = 1 + i * 7919 % 5000;
    auto* data = static_cast<unsigned char*>(arena.allocate(bytes));
    std::memset(data, i % 251, size_t(bytes));
    blocks.push_back({data, bytes, static_cast<unsigned char>(i % 251)});
    if (i % 3 != 2) continue;
    const size_t victim = size_t(i * 31) % blocks.size();
    const Block gone = blocks[victim];
    for (int64_t n = 0; n < gone.bytes; ++n) ASSERT_EQ(gone.data[n], gone.mark);
    arena.release(gone.data, gone.bytes);
    blocks.erase(blocks.begin() + std::ptrdiff_t(victim));
  }
  for (const Block& block : blocks)
    for (int64_t n = 0; n < block.bytes; ++n) ASSERT_EQ(block.data[n], block.mark);
}

TEST(Arena, RegionsPassToTheNextArena) {
  void* first = nullptr;
  {
    engine::Arena arena;
    first = arena.allocate(int64_t{100} << 20);
  }
  engine::Arena arena;
  EXPECT_EQ(arena.allocate(int64_t{100} << 20), first);
}

TEST(Buffer, MovesItsMemory) {
  const auto device = engine::make_cpu_device(1);
  Buffer a(*device, 64, MemoryUse::gradient);
  void* data = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: moved from on purpose
  EXPECT_EQ(b.data(), data);
  b = Buffer(*device, 32, MemoryUse::gradient);
  EXPECT_EQ(device->meter().in_use(), 32);
  b.reset();
  EXPECT_EQ(device->meter().in_use(), 0);
}

}  // namespace
