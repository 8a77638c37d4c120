// check: turns what CUDA's libraries return into exceptions with the place of the call.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "engine/base/errors.h"

namespace engine {

// Throw Error (environment); cudaErrorMemoryAllocation is std::bad_alloc.
void check(cudaError_t status, const Place& where = Place::current());
void check(cublasStatus_t status, const Place& where = Place::current());

}  // namespace engine
