// ThreadBlock: what a hand-tuned kernel asks of the machine. A CUDA block offers it
// (device_block.cuh), and so does an emulation on the host, with which the kernels are tested
// where there is no GPU.
//
// A kernel is a struct with
//   static constexpr int kThreads, kBlocks   threads a block (a multiple of 32), and blocks that an
//                                            SM should hold: the compiler's limit on registers
//   int64_t shared_bytes() const             of the block's shared memory, kMostSharedBytes at most
//   void operator()(const Block&) const      what one thread does
// and runs through a launcher's blocks(count, kernel). Shared memory starts undefined; what a
// thread writes others may read behind sync(), the lanes of its warp behind sync_warp().
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "kernels/scalar.h"

#if defined(__CUDACC__)
#define DEVICE __device__ __forceinline__
#define KERNELS_UNROLL _Pragma("unroll")
#define KERNELS_UNROLL_TWICE _Pragma("unroll 2")
#define KERNELS_NO_UNROLL _Pragma("unroll 1")
#else
#define DEVICE inline
#define KERNELS_UNROLL
#define KERNELS_UNROLL_TWICE
#define KERNELS_NO_UNROLL
#endif

namespace kernels::cuda {

constexpr int kWarpSize = 32;
// Shared memory that a block can have on every generation from 8.0 on; more than 8.6, 8.9 and 12.0
// give is asked for nowhere.
constexpr int kMostSharedBytes = 99 << 10;
constexpr float kLog2E = 1.44269504f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Four registers of a lane, each of two bf16 (the lower half is the first): the left operand of a
// product of fragments [16, 16], or two neighbouring right ones [16, 8].
struct Fragment {
  uint32_t r[4];
};

// Where the elements of an m16n8k16 product stand (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
// lane = 4 · group + member.
//   left [16, 16], register i:  row group + 8 · (i % 2), columns 2 · member + 8 · (i / 2) and next
//   right [16, 8], register i:  rows 2 · member + 8 · i and next, column group
//   sum [16, 8], element i:     row group + 8 · (i / 2), column 2 · member + i % 2
constexpr HOST_DEVICE int group_of(int lane) { return lane / 4; }
constexpr HOST_DEVICE int member_of(int lane) { return lane % 4; }

template <class B>
concept ThreadBlock = requires(const B block, float x, float (&sum)[4], Fragment f, uint32_t offset,
                               const void* global) {
  { block.index() } -> std::same_as<int64_t>;  // of the block in the grid
  { block.thread() } -> std::same_as<int>;     // in the block
  { block.shared() } -> std::same_as<std::byte*>;
  block.sync();       // all threads of the block
  block.sync_warp();  // all lanes of the warp
  // x of the lane whose number differs in the bits of `mask`.
  { block.shuffle_xor(x, int{}) } -> std::same_as<float>;
  // 2^x, of full precision but for subnormal results, which may be 0.
  { block.power_of_two(x) } -> std::same_as<float>;
  // Starts a copy of 4 or 16 aligned bytes, or of zeros, to an offset in shared memory. They have
  // arrived for this thread behind wait_copies<n>() unless they belong to the n latest groups, each
  // of which ends with commit_copies().
  block.template copy_async<16>(offset, global, bool{});
  block.commit_copies();
  block.template wait_copies<1>();
  // Matrices of 8 × 8 bf16 in shared memory, of which lane l names row l % 8 of matrix l / 8 (the
  // offset of 16 aligned bytes). Register i holds of matrix i row `group`, columns 2 · member and
  // the next; or, transposed, rows 2 · member and the next, column `group`.
  { block.load_matrices(offset) } -> std::same_as<Fragment>;
  { block.load_matrices_transposed(offset) } -> std::same_as<Fragment>;
  // sum += left · right, the right operand in two registers.
  block.multiply_add(sum, f, uint32_t{}, uint32_t{});
};

// Two floats as a register of a fragment.
DEVICE uint32_t pack_pair(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  return bfloat16(low).bits | static_cast<uint32_t>(bfloat16(high).bits) << 16;
#endif
}

// Sum and maximum over the 2^k lanes whose numbers differ only in the bits below `lanes`.
template <ThreadBlock B>
DEVICE float lanes_sum(const B& block, float x, int lanes = kWarpSize) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) x += block.shuffle_xor(x, mask);
  return x;
}
template <ThreadBlock B>
DEVICE float lanes_max(const B& block, float x, int lanes = kWarpSize) {
  for (int mask = lanes / 2; mask > 0; mask /= 2) x = larger(x, block.shuffle_xor(x, mask));
  return x;
}

// `combine` of what the warps of a block have, in their order, for every thread; `slots` are
// kThreads / 32 floats of shared memory.
template <int kThreads, ThreadBlock B, class F>
DEVICE float over_warps(const B& block, float x, float* slots, F combine) {
  if (block.thread() % kWarpSize == 0) slots[block.thread() / kWarpSize] = x;
  block.sync();
  float result = slots[0];
  KERNELS_UNROLL
  for (int warp = 1; warp < kThreads / kWarpSize; ++warp) result = combine(result, slots[warp]);
  block.sync();  // the slots may be written again
  return result;
}
template <int kThreads, ThreadBlock B>
DEVICE float block_sum(const B& block, float x, float* slots) {
  return over_warps<kThreads>(block, lanes_sum(block, x), slots,
                              [](float a, float b) { return a + b; });
}
template <int kThreads, ThreadBlock B>
DEVICE float block_max(const B& block, float x, float* slots) {
  return over_warps<kThreads>(block, lanes_max(block, x), slots,
                              [](float a, float b) { return larger(a, b); });
}

}  // namespace kernels::cuda
