// HostStaging: pinned memory through which small copies pass from the host to a GPU.
#pragma once
#include <array>
#include <cstdint>

#include "engine/device/cuda/stream.h"

namespace engine {

// CUDA may read pageable memory behind the call, or wait for the stream before it does. From here
// copies start at once and their source may be used again at once; only when the host is many of
// them ahead it waits for the device.
class HostStaging {
 public:
  static constexpr int64_t kMostBytes = int64_t{256} << 10;

  HostStaging();
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  // Of 1 to kMostBytes bytes, in the order of the stream.
  void copy(void* dst, const void* src, int64_t bytes, CudaStream& stream, const Look& look);

 private:
  static constexpr size_t kSlots = 16;
  void* data_ = nullptr;  // kSlots times kMostBytes, which take turns
  std::array<CudaEvent, kSlots> are_free_;
  size_t next_ = 0;
};

}  // namespace engine
