// The place that starts kernel bodies on a GPU, and the check behind it. (Hand-tuned kernels are
// started by cuda/launch_blocks.cuh and checked here, too.)
//
// Compiled by the host's compiler, for tests without a GPU, a launch becomes host work in the order
// of the stream.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cuda.h"
#include "kernels/cuda/launch_blocks.cuh"
#include "kernels/group.h"

namespace kernels {

// Throws std::runtime_error with the place of the launch when a kernel could not be started.
inline void check_launch(std::source_location where = std::source_location::current()) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("a kernel could not be started at ") + where.file_name() +
                           ":" + std::to_string(where.line()) + ": " + cudaGetErrorString(status));
}

#if defined(__CUDACC__)

// One CUDA thread block of whole warps.
class BlockGroup {
 public:
  static constexpr int kWarp = 32, kLeastSize = kWarp;
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
  template <class A>
  __device__ A sum(A x) const {
    return reduce(x, [](A a, A b) { return a + b; });
  }
  template <class A>
  __device__ A max(A x) const {
    return reduce(x, [](A a, A b) { return a < b ? b : a; });
  }

 private:
  // Within each warp by shuffles, then over the warps in their order: the same for every thread.
  template <class A, class F>
  __device__ A reduce(A x, F combine) const {
    for (int step = kWarp / 2; step > 0; step /= 2)
      x = combine(x, __shfl_xor_sync(0xffffffffu, x, step));
    const int warps = size() / kWarp;
    if (warps == 1) return x;
    __shared__ A partials[kWarp];
    if (rank() % kWarp == 0) partials[rank() / kWarp] = x;
    __syncthreads();
    x = partials[0];
    for (int warp = 1; warp < warps; ++warp) x = combine(x, partials[warp]);
    __syncthreads();
    return x;
  }
};
static_assert(Group<BlockGroup>);

template <class Kernel>
__global__ void run_rows(const Kernel kernel, int64_t count) {
  for (int64_t row = blockIdx.x; row < count; row += gridDim.x) kernel(BlockGroup{}, row);
}

#else

template <class Kernel>
struct HostRows {
  Kernel kernel;
  int64_t count;

  static void run(void* data) {
    const std::unique_ptr<HostRows> rows(static_cast<HostRows*>(data));
    for (int64_t row = 0; row < rows->count; ++row) rows->kernel(SerialGroup{}, row);
  }
};

#endif

// Starts bodies on one stream.
class CudaLauncher {
 public:
  CudaLauncher(cudaStream_t stream, int multiprocessors, Scratch scratch = {})
      : stream_(stream), multiprocessors_(multiprocessors), scratch_(std::move(scratch)) {}

  template <class T, class Kernel>
  void rows(int64_t count, [[maybe_unused]] int64_t work, const Kernel& kernel) const {
    static_assert(sizeof(Kernel) + sizeof count <= 4096, "what CUDA takes of parameters");
    if (count == 0) return;
#if defined(__CUDACC__)
    run_rows<<<row_blocks(count), threads(work), 0, stream_>>>(kernel, count);
#else
    using Rows = HostRows<Kernel>;
    cudaLaunchHostFunc(stream_, &Rows::run, new Rows{kernel, count});
#endif
    check_launch();
  }
  // A warp reads neighbouring columns in one piece.
  int64_t column_block(int64_t) const { return 32; }

#if defined(__CUDACC__)
  // The hand-tuned kernels (cuda/block.h).
  template <class Kernel>
  void blocks(int64_t count, const Kernel& kernel) const {
    cuda::launch_blocks(stream_, count, kernel);
    check_launch();
  }
#endif
  void* scratch(int64_t bytes) const { return scratch_(bytes); }

  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  // Each thread has a few elements of a row in flight; more than 512 threads wait for each other
  // longer at every sum than they gain.
  [[maybe_unused]] static unsigned threads(int64_t work) {
    constexpr int64_t kPerThread = 8, kWarp = 32, kMost = 512;
    const int64_t wanted = (work / kPerThread + kWarp - 1) / kWarp * kWarp;
    return static_cast<unsigned>(std::clamp(wanted, kWarp, kMost));
  }
  // Enough blocks to fill the chip many times over, so that uneven rows even out.
  unsigned row_blocks(int64_t count) const {
    constexpr int64_t kBlocksPerMultiprocessor = 256;
    return static_cast<unsigned>(std::min(count, kBlocksPerMultiprocessor * multiprocessors_));
  }

  cudaStream_t stream_;
  int multiprocessors_;
  Scratch scratch_;
};

}  // namespace kernels
