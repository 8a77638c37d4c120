// Ranks with a GPU each, through NCCL.
#include "engine/comm/nccl/run_nccl.h"
#include "engine/worker/cuda/gpu_ranks.h"

namespace engine {

bool has_gpu_ranks() { return true; }
std::string gpu_ranks_version() { return nccl_version(); }

void run_gpu_ranks(CudaDevice& device, Communicator& others,
                   const std::function<void(Communicator&)>& body) {
  run_nccl(device, others, {}, body);
}

void run_gpu_ranks(CudaDevice& device, const FileRank& place,
                   const std::function<void(Communicator&)>& body) {
  run_nccl(device, place.rank, place.ranks, place.path, {}, body);
}

}  // namespace engine
