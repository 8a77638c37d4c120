// What the 32 lanes of a warp do together, on the operands of all of them.
#pragma once
#include <array>
#include <cstring>

#include "tests/support/blocks/emulated_block.h"

namespace testing_support {

template <class Operands>
using WarpOperands = std::array<Operands*, kernels::cuda::kWarpSize>;

// False when the masks differ or leave the warp.
bool warp_shuffle(const WarpOperands<BlockEmulator::Shuffle>& lanes);
void warp_load_matrices(const std::byte* shared,
                        const WarpOperands<BlockEmulator::MatrixLoad>& lanes);
void warp_multiply_add(const WarpOperands<BlockEmulator::Product>& lanes);

}  // namespace testing_support
