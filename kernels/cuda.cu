// The CUDA device's kernels: the generic bodies on thread blocks, hand-tuned kernels where they
// fit.
#include "kernels/cuda.h"

#include "kernels/basic_kernels.h"
#include "kernels/cuda/tuned_launcher.h"
#include "kernels/launch_cuda.cuh"

namespace kernels {
namespace {

#if defined(__CUDACC__)
using BestLauncher = TunedLauncher<CudaLauncher>;
#else  // the hand-tuned kernels have an emulation and tests of their own
using BestLauncher = CudaLauncher;
#endif

int multiprocessors_of_current() {
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  check_launch();
  return multiprocessors;
}

}  // namespace

std::unique_ptr<Kernels> make_cuda_kernels(cudaStream_t stream, Scratch scratch) {
  return std::make_unique<BasicKernels<BestLauncher>>(
      BestLauncher(stream, multiprocessors_of_current(), std::move(scratch)));
}

template <class T>
void reduce_rank_buffers(const RankBuffers& buffers, int64_t count, bool maximum,
                         cudaStream_t stream) {
  const CudaLauncher launcher(stream, multiprocessors_of_current());
  const Tiling tiling{1, count};
  const int64_t work = smaller(count, Tiling::kWidth);
  if (maximum)
    launcher.rows<T>(tiling.items(), work, RankReduce<T, true>{buffers, tiling});
  else
    launcher.rows<T>(tiling.items(), work, RankReduce<T, false>{buffers, tiling});
}
template void reduce_rank_buffers<float>(const RankBuffers&, int64_t, bool, cudaStream_t);
template void reduce_rank_buffers<bfloat16>(const RankBuffers&, int64_t, bool, cudaStream_t);
template void reduce_rank_buffers<double>(const RankBuffers&, int64_t, bool, cudaStream_t);
template void reduce_rank_buffers<int32_t>(const RankBuffers&, int64_t, bool, cudaStream_t);
template void reduce_rank_buffers<uint8_t>(const RankBuffers&, int64_t, bool, cudaStream_t);

}  // namespace kernels
