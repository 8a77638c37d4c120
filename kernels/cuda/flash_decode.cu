// Attention over a cache in pages, compiled for GPUs.
#include "kernels/cuda/flash_decode.h"

#include "kernels/cuda/device_block.cuh"

namespace kernels::cuda {

template void launch_blocks(cudaStream_t, int64_t, const FlashDecode<64>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashDecode<128>&);
template void launch_blocks(cudaStream_t, int64_t, const MergeSplits<64>&);
template void launch_blocks(cudaStream_t, int64_t, const MergeSplits<128>&);

}  // namespace kernels::cuda
