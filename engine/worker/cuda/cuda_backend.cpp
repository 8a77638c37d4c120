// Ranks on GPUs.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/local_communicator.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/device/cuda/gpu_facts.h"
#include "engine/worker/backend.h"
#include "engine/worker/cuda/gpu_ranks.h"

namespace engine {
namespace {

// What the libraries read when they start, unless the user has set it: before there are threads.
const bool kEnvironmentIsSet = [] {
  // Streams share queues to the GPU, 8 if nobody asks for more: what waits for another rank holds
  // up those behind it.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // Up to 2.23 NCCL writes into the memory of ranks that are threads of one process, but what comes
  // from a pool is not open to other GPUs.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 0);
  return true;
}();

// A GPU for each rank on this machine.
int gpu_of(int rank_here, int ranks_here) {
  const int gpus = cuda_gpus();
  if (ranks_here > gpus && gpus > 0)
    throw Error(ExitCode::environment,
                fmt::format("{} processes on a machine with {}; start one process a GPU, or ranks "
                            "as threads of one process",
                            ranks_here, gpus == 1 ? "1 GPU" : fmt::format("{} GPUs", gpus)));
  return rank_here;
}

}  // namespace

std::string_view worker_name() { return "autotune-worker-cuda"; }

nlohmann::json describe_backend() {
  nlohmann::json gpus = nlohmann::json::array();
  for (const GpuFacts& gpu : find_gpus())
    gpus.push_back({{"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"free_bytes", gpu.free_bytes},
                    {"multiprocessors", gpu.multiprocessors},
                    {"capability", gpu.capability},
                    {"usable", gpu.usable},
                    {"peers", gpu.peers}});
  const std::string nccl = gpu_ranks_version();
  return {{"kind", "cuda"},
          {"driver_version", cuda_driver_version()},
          {"runtime_version", cuda_runtime_version()},
          {"nccl_version", nccl.empty() ? nlohmann::json() : nlohmann::json(nccl)},
          {"gpus", std::move(gpus)}};
}

void run_thread_ranks(int ranks, const RankBody& body) {
  if (ranks == 1) return run_phantom_rank(0, 1, 0, body);
  if (cuda_gpus() >= ranks && has_gpu_ranks())
    return run_local(ranks, [&](Communicator& others) {
      CudaDevice device(others.rank());
      run_gpu_ranks(device, others, [&](Communicator& gpus) { body(device, gpus); });
    });
  const auto share = [&](Communicator& communicator) {
    CudaDevice device(0, ranks);
    communicator.barrier();  // nobody's share is taken of what others left
    body(device, communicator);
  };
  run_local(ranks, share, shared_gpu_memory());
}

void run_phantom_rank(int rank, int world, uint64_t seed, const RankBody& body) {
  CudaDevice device(0);
  PhantomCommunicator communicator(rank, world, seed, ordered_gpu_memory(device));
  body(device, communicator);
}

void run_process_rank(Communicator& processes, int rank_here, int ranks_here,
                      const RankBody& body) {
  CudaDevice device(gpu_of(rank_here, ranks_here));
  run_gpu_ranks(device, processes, [&](Communicator& gpus) { body(device, gpus); });
}

void run_file_rank(const FileRank& place, const RankBody& body) {
  CudaDevice device(gpu_of(place.rank_here, place.rank_here + 1));
  run_gpu_ranks(device, place, [&](Communicator& gpus) { body(device, gpus); });
}

}  // namespace engine
