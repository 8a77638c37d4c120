// What CUDA tells about this machine.
#include "engine/device/cuda/gpu_facts.h"

#include <fmt/format.h>

#include "engine/device/cuda/check.h"
#include "engine/device/cuda/cuda_device.h"

namespace engine {
namespace {

std::string version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

GpuFacts facts_of(int gpu, int count) {
  GpuFacts facts;
  cudaDeviceProp properties = {};
  check(cudaSetDevice(gpu));
  check(cudaGetDeviceProperties(&properties, gpu));
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  facts.name = properties.name;
  facts.memory_bytes = static_cast<int64_t>(total);
  facts.free_bytes = static_cast<int64_t>(free);
  facts.multiprocessors = properties.multiProcessorCount;
  facts.capability = fmt::format("{}.{}", properties.major, properties.minor);
  facts.usable = gpu < cuda_gpus();
  for (int other = 0; other < count; ++other) {
    int reaches = 0;
    if (other != gpu) check(cudaDeviceCanAccessPeer(&reaches, gpu, other));
    if (reaches != 0) facts.peers.push_back(other);
  }
  return facts;
}

}  // namespace

std::vector<GpuFacts> find_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  std::vector<GpuFacts> gpus;
  for (int gpu = 0; gpu < count; ++gpu) gpus.push_back(facts_of(gpu, count));
  return gpus;
}

std::string cuda_driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) return "";
  return version_text(version);
}

std::string cuda_runtime_version() {
  int version = 0;
  check(cudaRuntimeGetVersion(&version));
  return version_text(version);
}

}  // namespace engine
