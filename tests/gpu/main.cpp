// Runs the suites of the CUDA device on a GPU, or says that there is none.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory_resource>

#include "engine/device/cuda/cuda_device.h"

namespace {

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

// Memory that host and GPU both reach, for operands that tests fill and read.
class ManagedMemory final : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t) override {
    void* data = nullptr;
    engine::check(cudaMallocManaged(&data, bytes == 0 ? 1 : bytes, cudaMemAttachGlobal));
    return data;
  }
  void do_deallocate(void* data, size_t, size_t) override { cudaFree(data); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (engine::cuda_gpus() == 0) {
    std::puts("SKIPPED: no usable GPU on this machine; `autotune doctor` tells what is missing");
    return kSkipped;
  }
  static ManagedMemory memory;
  std::pmr::set_default_resource(&memory);
  return RUN_ALL_TESTS();
}
