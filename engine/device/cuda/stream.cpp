// Owners of what orders work on a GPU.
#include "engine/device/cuda/stream.h"

#include <thread>

namespace engine {
namespace {

// True when done, false when not yet.
bool is_done(cudaError_t status) {
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // asking is no failure
    return false;
  }
  check(status);
  return true;
}

}  // namespace

void wait_until(const std::function<bool()>& is_done, const Look& look) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kMoment = std::chrono::milliseconds(1);
  const auto start = Clock::now();
  while (!is_done()) {
    const auto waited = Clock::now() - start;
    if (waited < kMoment) {
      std::this_thread::yield();
    } else {
      if (look) look(waited);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

CudaEvent::CudaEvent(bool timed) {
  check(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}
CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }
bool CudaEvent::has_passed() const { return is_done(cudaEventQuery(event_)); }
double CudaEvent::seconds_since(const CudaEvent& start) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.event_, event_));
  return milliseconds / 1e3;
}

CudaStream::CudaStream(bool urgent) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
}
CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

void CudaStream::synchronize(const Look& look) const {
  if (!look) return check(cudaStreamSynchronize(stream_));
  wait_until([this] { return is_done(cudaStreamQuery(stream_)); }, look);
}

}  // namespace engine
