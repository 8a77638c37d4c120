// Ranks with a GPU each, where this program is linked with NCCL.
#pragma once
#include "engine/device/cuda/cuda_device.h"
#include "engine/worker/backend.h"

namespace engine {

bool has_gpu_ranks();
std::string gpu_ranks_version();  // of NCCL, as in "2.28.9"; empty without
// As run_nccl; throw Error (environment) where the program has no NCCL.
void run_gpu_ranks(CudaDevice& device, Communicator& others,
                   const std::function<void(Communicator&)>& body);
void run_gpu_ranks(CudaDevice& device, const FileRank& place,
                   const std::function<void(Communicator&)>& body);

}  // namespace engine
