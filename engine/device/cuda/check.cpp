// Turns what CUDA's libraries return into exceptions with the place of the call.
#include "engine/device/cuda/check.h"

#include <fmt/format.h>

#include <new>

namespace engine {

void check(cudaError_t status, const Place& where) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // running out of memory leaves the device usable
    throw std::bad_alloc();
  }
  throw Error(ExitCode::environment,
              fmt::format("CUDA failed at {}:{}: {} ({})", where.file, where.line,
                          cudaGetErrorString(status), cudaGetErrorName(status)));
}

void check(cublasStatus_t status, const Place& where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  throw Error(ExitCode::environment, fmt::format("cuBLASLt failed at {}:{}: status {}", where.file,
                                                 where.line, static_cast<int>(status)));
}

}  // namespace engine
