// Runs ranks as MPI processes.
#include "engine/comm/mpi/run_mpi.h"
#include "engine/worker/mpi_ranks.h"

namespace engine {

bool built_with_mpi() { return true; }

void run_mpi_ranks(std::ostream& errors, const std::function<void(Communicator&)>& body) {
  MpiOptions options;
  options.errors = &errors;
  run_mpi(options, body);
}

}  // namespace engine
