// ThreadBlock on the host: every thread of a block is a fiber, run in an order of choice, so that
// the text of a hand-tuned kernel is tested, under the sanitizers, where there is no GPU.
//
// What the emulation finds, beyond wrong results:
//   a barrier that some thread never reaches, a warp-wide call that some lane does not make, lanes
//   that make different ones (KernelFault);
//   a barrier left out: shared memory starts as NaN, threads run as far ahead of each other as the
//   barriers permit, and the order of lanes and warps can be turned round or shuffled;
//   a wait for copies left out: with `late` copies nothing arrives before it is waited for, without
//   it everything at once, over data that may still be in use;
//   more shared memory than every GPU gives, addresses of copies and matrices that are misaligned
//   or outside the block's shared memory, and writes beside it (under AddressSanitizer at once,
//   else when the block ends).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "kernels/cuda/block.h"

namespace testing_support {

// A kernel that would hang, or do anything at all, on a GPU.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class LaneOrder { ascending, descending, shuffled };

struct EmulationMode {
  LaneOrder order = LaneOrder::ascending;
  bool late_copies = true;
  uint32_t seed = 1;  // of the shuffled order
};

// Runs the threads of one block after another. Stacks are kept from block to block.
class BlockEmulator {
 public:
  explicit BlockEmulator(EmulationMode mode);
  ~BlockEmulator();
  BlockEmulator(const BlockEmulator&) = delete;
  BlockEmulator& operator=(const BlockEmulator&) = delete;

  // `body` is run once a thread. Throws KernelFault.
  void run(int64_t index, int threads, int64_t shared_bytes, const std::function<void()>& body);

  // What the running thread asks.
  struct Shuffle {
    float value;
    int mask;
    float result;
  };
  struct MatrixLoad {
    uint32_t offset;
    bool transposed;
    kernels::cuda::Fragment result;
  };
  struct Product {
    float (*sum)[4];
    const kernels::cuda::Fragment* left;
    uint32_t right[2];
  };
  int64_t index() const;
  int thread() const;
  std::byte* shared() const;
  void barrier();
  void warp_barrier();
  void shuffle(Shuffle& operands);
  void load_matrices(MatrixLoad& operands);
  void multiply_add(Product& operands);
  void copy(uint32_t offset, const void* global, int bytes, bool present);
  void commit_copies();
  void wait_copies(int pending);

 private:
  struct Block;
  std::unique_ptr<Block> block_;
};

// The ThreadBlock that kernels see.
class EmulatedBlock {
 public:
  explicit EmulatedBlock(BlockEmulator& emulator) : emulator_(&emulator) {}

  int64_t index() const { return emulator_->index(); }
  int thread() const { return emulator_->thread(); }
  std::byte* shared() const { return emulator_->shared(); }
  void sync() const { emulator_->barrier(); }
  void sync_warp() const { emulator_->warp_barrier(); }
  float shuffle_xor(float x, int mask) const {
    BlockEmulator::Shuffle operands{x, mask, 0};
    emulator_->shuffle(operands);
    return operands.result;
  }
  float power_of_two(float x) const { return std::exp2(x); }
  template <int kBytes>
  void copy_async(uint32_t offset, const void* global, bool present) const {
    static_assert(kBytes == 4 || kBytes == 16);
    emulator_->copy(offset, global, kBytes, present);
  }
  void commit_copies() const { emulator_->commit_copies(); }
  template <int kPending>
  void wait_copies() const {
    emulator_->wait_copies(kPending);
  }
  kernels::cuda::Fragment load_matrices(uint32_t offset) const { return load(offset, false); }
  kernels::cuda::Fragment load_matrices_transposed(uint32_t offset) const {
    return load(offset, true);
  }
  void multiply_add(float (&sum)[4], const kernels::cuda::Fragment& left, uint32_t b0,
                    uint32_t b1) const {
    BlockEmulator::Product operands{&sum, &left, {b0, b1}};
    emulator_->multiply_add(operands);
  }

 private:
  kernels::cuda::Fragment load(uint32_t offset, bool transposed) const {
    BlockEmulator::MatrixLoad operands{offset, transposed, {}};
    emulator_->load_matrices(operands);
    return operands.result;
  }
  BlockEmulator* emulator_;
};
static_assert(kernels::cuda::ThreadBlock<EmulatedBlock>);

// Runs the blocks [0, count) of a kernel, the last first: on a GPU any may be.
template <class Kernel>
void emulate_blocks(BlockEmulator& emulator, int64_t count, const Kernel& kernel) {
  static_assert(Kernel::kThreads % kernels::cuda::kWarpSize == 0 && Kernel::kThreads <= 1024);
  for (int64_t index = count - 1; index >= 0; --index)
    emulator.run(index, Kernel::kThreads, kernel.shared_bytes(),
                 [&] { kernel(EmulatedBlock(emulator)); });
}

}  // namespace testing_support
