// Ranks on this machine's processor.
#include <nlohmann/json.hpp>

#include "engine/comm/local_communicator.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/worker/backend.h"

namespace engine {

std::string_view worker_name() { return "autotune-worker"; }

nlohmann::json describe_backend() {
  const auto device = make_cpu_device(1);
  return {{"kind", "cpu"}, {"bf16", device->multiplies(DType::bf16)}};
}

void run_thread_ranks(int ranks, const RankBody& body) {
  run_local(ranks, [&](Communicator& communicator) {
    const auto device = make_cpu_device(math_threads(ranks));
    body(*device, communicator);
  });
}

void run_phantom_rank(int rank, int world, uint64_t seed, const RankBody& body) {
  PhantomCommunicator communicator(rank, world, seed);
  const auto device = make_cpu_device(math_threads(1));
  body(*device, communicator);
}

void run_process_rank(Communicator& processes, int, int ranks_here, const RankBody& body) {
  const auto device = make_cpu_device(math_threads(ranks_here));
  body(*device, processes);
}

void run_file_rank(const FileRank&, const RankBody&) {
  throw Error(ExitCode::environment,
              "ranks on the CPU meet through MPI; start them by mpirun or srun");
}

}  // namespace engine
