// Pinned memory through which small copies pass from the host to a GPU.
#include "engine/device/cuda/staging.h"

#include <cstring>

namespace engine {

// All at once: to pin more or less later may wait for everything on the GPU.
HostStaging::HostStaging() { check(cudaMallocHost(&data_, kSlots * kMostBytes)); }
HostStaging::~HostStaging() { cudaFreeHost(data_); }

void HostStaging::copy(void* dst, const void* src, int64_t bytes, CudaStream& stream,
                       const Look& look) {
  expect(bytes > 0 && bytes <= kMostBytes, "what is staged is small");
  const size_t slot = next_++ % kSlots;
  wait_until([&] { return are_free_[slot].has_passed(); }, look);
  const auto size = static_cast<size_t>(bytes);
  void* staged = static_cast<std::byte*>(data_) + slot * kMostBytes;
  std::memcpy(staged, src, size);
  check(cudaMemcpyAsync(dst, staged, size, cudaMemcpyHostToDevice, stream.get()));
  stream.record(are_free_[slot]);
}

}  // namespace engine
