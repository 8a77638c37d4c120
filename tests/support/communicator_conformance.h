// What every communicator must do: one suite, run on thread ranks and on MPI processes.
#pragma once
#include <string>
#include <vector>

#include "engine/comm/communicator.h"

namespace conformance {

// What not every kind of rank promises: NCCL neither additions in rank order, nor that messages to
// several ranks do not wait for each other.
enum class Promise : uint8_t { none, rank_order, free_sends };

struct Case {
  std::string name;
  // Called by every rank with the same communicator size; throws where the communicator is wrong.
  void (*check)(engine::Communicator&);
  Promise needs = Promise::none;
};

const std::vector<Case>& cases();

}  // namespace conformance
