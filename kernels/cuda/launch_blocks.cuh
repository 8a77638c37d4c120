// Starts hand-tuned kernels on a GPU. They are compiled in files of their own (*.cu beside this
// one), so that the op set that launches them need not wait for tensor-core code.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace kernels::cuda {

// Runs the blocks [0, count) of a kernel (block.h), count > 0. An error is found behind the launch,
// by cudaGetLastError().
template <class Kernel>
void launch_blocks(cudaStream_t stream, int64_t count, const Kernel& kernel);

}  // namespace kernels::cuda
