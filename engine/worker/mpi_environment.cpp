// What mpirun and srun say to the processes they start.
#include <algorithm>
#include <cstdlib>

#include "engine/worker/mpi_ranks.h"

namespace engine {
namespace {

int number_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

bool started_as_mpi_rank() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return true;
  if (std::getenv("PMI_SIZE") != nullptr) return true;
  // A task of srun --mpi=pmix; Slurm sets the size itself.
  return std::getenv("PMIX_RANK") != nullptr;
}

int mpi_ranks_here() {
  const int told = std::max({number_in("OMPI_COMM_WORLD_LOCAL_SIZE"), number_in("MPI_LOCALNRANKS"),
                             number_in("SLURM_NTASKS_PER_NODE")});
  return std::max(1, told);
}

int mpi_rank_here() {
  return std::max({number_in("OMPI_COMM_WORLD_LOCAL_RANK"), number_in("MPI_LOCALRANKID"),
                   number_in("SLURM_LOCALID")});
}

}  // namespace engine
