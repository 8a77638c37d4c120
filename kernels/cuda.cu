// The CUDA device's kernels: the generic bodies on thread blocks.
#include "kernels/cuda.h"

#include "kernels/basic_kernels.h"
#include "kernels/launch_cuda.cuh"

namespace kernels {
namespace {

class CudaKernels final : public BasicKernels<CudaLauncher> {
 public:
  using Basic = BasicKernels<CudaLauncher>;
  using Basic::Basic;
};

CudaLauncher launcher_on(cudaStream_t stream) {
  int device = 0, multiprocessors = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  check_launch();
  return {stream, multiprocessors};
}

}  // namespace

std::unique_ptr<Kernels> make_cuda_kernels(cudaStream_t stream) {
  return std::make_unique<CudaKernels>(launcher_on(stream));
}

template <class T>
void reduce_rank_buffers(const RankBuffers& buffers, int64_t count, bool maximum,
                         cudaStream_t stream) {
  const CudaLauncher launcher = launcher_on(stream);
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
