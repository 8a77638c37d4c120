// Says that this program was built without MPI.
#include "engine/base/errors.h"
#include "engine/worker/mpi_ranks.h"

namespace engine {

bool built_with_mpi() { return false; }

void run_mpi_ranks(std::ostream&, const std::function<void(Communicator&)>&) {
  throw Error(ExitCode::environment,
              "this worker was built without MPI; install libopenmpi-dev and build again, or use "
              "thread ranks (--threads)");
}

}  // namespace engine
