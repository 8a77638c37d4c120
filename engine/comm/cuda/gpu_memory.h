// The memory of GPUs, as communicators reach it.
#pragma once
#include "engine/comm/rank_memory.h"
#include "engine/device/cuda/cuda_device.h"

namespace engine {

// Of thread ranks that share a GPU: every operation is done when it returns. At most
// kernels::RankBuffers::kMost ranks.
std::shared_ptr<const RankMemory> shared_gpu_memory();

// Of the one rank of `device`, which must outlive it: operations take their place in the device's
// work. Cannot reduce.
std::shared_ptr<const RankMemory> ordered_gpu_memory(CudaDevice& device);

}  // namespace engine
