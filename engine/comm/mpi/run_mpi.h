// Ranks as MPI processes.
#pragma once
#include <chrono>
#include <functional>
#include <iosfwd>

#include "engine/comm/communicator.h"

namespace engine {

struct MpiOptions {
  // How long one verb may wait for other ranks before it throws Error(environment); 0 = for ever.
  std::chrono::nanoseconds timeout{0};
  std::ostream* errors = nullptr;  // where the cause of a failure is written; null = std::cerr
};

// Runs body as one rank of the MPI job this process belongs to (alone, when it was started alone),
// and returns when all its messages are delivered. Once a process. When body throws, the cause is
// written and the whole job ends with the exit code of the error (1 if it is not an engine::Error).
void run_mpi(const MpiOptions& options, const std::function<void(Communicator&)>& body);

}  // namespace engine
