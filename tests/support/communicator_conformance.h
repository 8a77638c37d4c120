// What every communicator must do: one suite, run on thread ranks and on MPI processes.
#pragma once
#include <string>
#include <vector>

#include "engine/comm/communicator.h"

namespace conformance {

struct Case {
  std::string name;
  // Called by every rank with the same communicator size; throws where the communicator is wrong.
  void (*check)(engine::Communicator&);
  bool needs_rank_order = false;  // of the additions, which only NCCL does not promise
};

const std::vector<Case>& cases();

}  // namespace conformance
