// What this worker runs ranks on: the files of one folder, cpu/ or cuda/, are linked.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/comm/communicator.h"
#include "engine/device/device.h"

namespace engine {

using RankBody = std::function<void(Device&, Communicator&)>;

std::string_view worker_name();

// What `autotune doctor` asks: {"kind": "cpu", …} or {"kind": "cuda", "driver_version",
// "nccl_version", "gpus": [{"name", "memory_bytes", "free_bytes", "capability", "usable", "peers":
// [gpu…]}], …}; what is missing is null or absent, and never a failure.
nlohmann::json describe_backend();

// `ranks` of them, each a thread with a device of its own or a share of one.
void run_thread_ranks(int ranks, const RankBody& body);

// Rank `rank` of `world`, alone; the others are phantoms.
void run_phantom_rank(int rank, int world, uint64_t seed, const RankBody& body);

// This process as one of several; `processes` connects them, `ranks_here` of which run on this
// machine, this one as number `rank_here`.
void run_process_rank(Communicator& processes, int rank_here, int ranks_here, const RankBody& body);

// The same for processes that share nothing but the file `path`.
struct FileRank {
  int rank = -1, ranks = 0;
  int rank_here = 0;
  std::string path;
};
void run_file_rank(const FileRank& place, const RankBody& body);

// Cores for the arithmetic of one of `ranks` on this machine.
int math_threads(int ranks);

}  // namespace engine
