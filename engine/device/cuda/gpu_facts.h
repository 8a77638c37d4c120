// What CUDA tells about this machine, where it tells anything.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace engine {

struct GpuFacts {
  std::string name;
  int64_t memory_bytes = 0, free_bytes = 0;
  int multiprocessors = 0;
  std::string capability;  // "9.0"
  bool usable = false;     // by this program
  std::vector<int> peers;  // whose memory it reaches directly
};
// Empty without a driver or GPUs.
std::vector<GpuFacts> find_gpus();

// The newest CUDA that the driver knows, and the one of this program, as in "13.0"; the first is
// empty without a driver.
std::string cuda_driver_version();
std::string cuda_runtime_version();

}  // namespace engine
