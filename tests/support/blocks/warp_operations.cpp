// Shuffles, matrix loads and products of a warp, with the places of elements that the PTX ISA
// documents for shfl.sync, ldmatrix and mma.m16n8k16.
#include "tests/support/blocks/warp_operations.h"

namespace testing_support {
namespace {

using kernels::bfloat16;
using kernels::cuda::group_of;
using kernels::cuda::kWarpSize;
using kernels::cuda::member_of;

float half_of(uint32_t word, int half) {
  bfloat16 value;
  value.bits = static_cast<uint16_t>(half == 0 ? word : word >> 16);
  return float(value);
}

}  // namespace

bool warp_shuffle(const WarpOperands<BlockEmulator::Shuffle>& lanes) {
  const int mask = lanes[0]->mask;
  if (mask < 0 || mask >= kWarpSize) return false;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane]->mask != mask) return false;
    lanes[lane]->result = lanes[lane ^ static_cast<size_t>(mask)]->value;
  }
  return true;
}

void warp_load_matrices(const std::byte* shared,
                        const WarpOperands<BlockEmulator::MatrixLoad>& lanes) {
  const auto element = [&](int matrix, int row, int col) {
    uint16_t word;
    std::memcpy(&word, shared + lanes[static_cast<size_t>(8 * matrix + row)]->offset + 2 * col,
                sizeof word);
    return uint32_t{word};
  };
  for (int lane = 0; lane < kWarpSize; ++lane) {
    auto& own = *lanes[static_cast<size_t>(lane)];
    const int line = group_of(lane), pair = 2 * member_of(lane);
    for (int matrix = 0; matrix < 4; ++matrix)
      own.result.r[matrix] =
          own.transposed ? element(matrix, pair, line) | element(matrix, pair + 1, line) << 16
                         : element(matrix, line, pair) | element(matrix, line, pair + 1) << 16;
  }
}

void warp_multiply_add(const WarpOperands<BlockEmulator::Product>& lanes) {
  float left[16][16], right[8][16];  // [row][k], [column][k]
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& own = *lanes[static_cast<size_t>(lane)];
    for (int i = 0; i < 4; ++i)
      for (int half = 0; half < 2; ++half)
        left[group_of(lane) + 8 * (i % 2)][2 * member_of(lane) + 8 * (i / 2) + half] =
            half_of(own.left->r[i], half);
    for (int i = 0; i < 2; ++i)
      for (int half = 0; half < 2; ++half)
        right[group_of(lane)][2 * member_of(lane) + 8 * i + half] = half_of(own.right[i], half);
  }
  for (int lane = 0; lane < kWarpSize; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = group_of(lane) + 8 * (i / 2), col = 2 * member_of(lane) + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[row][k] * right[col][k];
      (*lanes[static_cast<size_t>(lane)]->sum)[i] += sum;
    }
}

}  // namespace testing_support
