// CudaStream and CudaEvent: owners of what orders work on a GPU.
#pragma once
#include <chrono>
#include <functional>

#include "engine/device/cuda/check.h"

namespace engine {

// Called while the host waits longer than a moment, with the time waited so far; may throw.
using Look = std::function<void(std::chrono::nanoseconds waited)>;

// Returns once is_done(): asks over and over for that moment, and then now and then. `look` may be
// null.
void wait_until(const std::function<bool()>& is_done, const Look& look);

// A point in a stream's work. With `timed` the time between two points can be told.
class CudaEvent {
 public:
  explicit CudaEvent(bool timed = false);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  cudaEvent_t get() const { return event_; }
  bool has_passed() const;
  // Of two timed points that have passed.
  double seconds_since(const CudaEvent& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Belongs to the GPU that is current when it is made. What is on an `urgent` one begins before
// waiting work of others.
class CudaStream {
 public:
  explicit CudaStream(bool urgent = false);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  void record(CudaEvent& event) { check(cudaEventRecord(event.get(), stream_)); }
  // Work from now on waits for the point in the other stream; the host does not.
  void wait_for(const CudaEvent& event) { check(cudaStreamWaitEvent(stream_, event.get(), 0)); }

  // The host waits until all work is done, and looks about meanwhile.
  void synchronize(const Look& look = nullptr) const;

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace engine
