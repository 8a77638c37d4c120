// Says that this program was built without NCCL.
#include "engine/worker/cuda/gpu_ranks.h"

namespace engine {
namespace {

[[noreturn]] void refuse() {
  throw Error(ExitCode::environment,
              "this worker was built without NCCL; install NCCL 2.18 or later and build again, or "
              "run all ranks as threads on one GPU");
}

}  // namespace

bool has_gpu_ranks() { return false; }
std::string gpu_ranks_version() { return {}; }
void run_gpu_ranks(CudaDevice&, Communicator&, const std::function<void(Communicator&)>&) {
  refuse();
}
void run_gpu_ranks(CudaDevice&, const FileRank&, const std::function<void(Communicator&)>&) {
  refuse();
}

}  // namespace engine
