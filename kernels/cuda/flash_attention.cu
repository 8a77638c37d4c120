// Attention on tensor cores, compiled for GPUs.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/flash_attention_keys.h"

namespace kernels::cuda {

template void launch_blocks(cudaStream_t, int64_t, const FlashForward<64>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashForward<128>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashAlong&);
template void launch_blocks(cudaStream_t, int64_t, const FlashBackwardQuery<64>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashBackwardQuery<128>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashBackwardKey<64>&);
template void launch_blocks(cudaStream_t, int64_t, const FlashBackwardKey<128>&);

}  // namespace kernels::cuda
