// The kernels of a CUDA device.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "kernels/kernels.h"
#include "kernels/rank_reduce.h"

namespace kernels {

// Device memory of at least so many bytes, aligned to 16, for what one kernel hands to the next on
// the same stream; the next call may give the same.
using Scratch = std::function<void*(int64_t bytes)>;

// Everything is started on `stream` of the current device and returns at once; launches that fail
// throw std::runtime_error.
std::unique_ptr<Kernels> make_cuda_kernels(cudaStream_t stream, Scratch scratch);

// RankReduce of `count` elements of T: float, bfloat16, double, int32_t or uint8_t.
template <class T>
void reduce_rank_buffers(const RankBuffers& buffers, int64_t count, bool maximum,
                         cudaStream_t stream);

}  // namespace kernels
