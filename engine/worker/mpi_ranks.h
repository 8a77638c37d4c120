// Ranks as MPI processes, where this program is linked with MPI.
#pragma once
#include <functional>
#include <iosfwd>

#include "engine/comm/communicator.h"

namespace engine {

// Whether mpirun or srun started this process as one of several ranks. Does not touch MPI.
bool started_as_mpi_rank();
// Ranks of the MPI job on this machine; 1 when unknown.
int mpi_ranks_here();
// This one's place among them; 0 when unknown.
int mpi_rank_here();

bool built_with_mpi();
// Throws Error (environment) where the program has no MPI.
void run_mpi_ranks(std::ostream& errors, const std::function<void(Communicator&)>& body);

}  // namespace engine
