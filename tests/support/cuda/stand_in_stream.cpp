// Streams and events of the stand-in.
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/support/cuda/stand_in.h"

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false, ends = false;
  std::thread thread;

  CUstream_st() {
    if (cuda_stand_in::streams_are_threads) thread = std::thread([this] { run(); });
  }
  ~CUstream_st() {
    if (!thread.joinable()) drain();
    if (!thread.joinable()) return;
    {
      const std::scoped_lock lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  void push(std::function<void()> work) {
    {
      const std::scoped_lock lock(mutex);
      queue.push_back(std::move(work));
    }
    if (thread.joinable()) changed.notify_all();
  }
  // Returns once all work is done, by the stream's thread or by this one.
  void wait() {
    if (!thread.joinable()) return drain();
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
  bool is_idle() {
    if (!thread.joinable()) drain();
    const std::scoped_lock lock(mutex);
    return queue.empty() && !busy;
  }

 private:
  void drain() {
    const cuda_stand_in::Access access;
    while (true) {
      std::function<void()> work;
      {
        const std::scoped_lock lock(mutex);
        if (queue.empty()) return;
        work = std::move(queue.front());
        queue.pop_front();
      }
      work();
    }
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      auto work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      busy = false;
      if (queue.empty()) changed.notify_all();
    }
  }
};

struct CUevent_st {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0, passed = 0;
    CUstream_st* stream = nullptr;  // where it was recorded last
    Clock::time_point time;

    // Returns once the point is passed; works for a stream that has no thread.
    void wait(uint64_t wanted) {
      std::unique_lock lock(mutex);
      if (passed < wanted && !cuda_stand_in::streams_are_threads) {
        lock.unlock();
        stream->wait();
        lock.lock();
      }
      changed.wait(lock, [&] { return passed >= wanted; });
    }
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

namespace {

// cudaStreamPerThread is a name, not a stream.
CUstream_st& real(cudaStream_t stream) {
  if (stream != cudaStreamPerThread) return *stream;
  thread_local CUstream_st own;
  return own;
}

}  // namespace

namespace cuda_stand_in {

bool streams_are_threads = false;

void enqueue(cudaStream_t stream, std::function<void()> work) {
  static const bool kBlocking = [] {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text != nullptr && text[0] == '1';
  }();
  real(stream).push(std::move(work));
  if (kBlocking) real(stream).wait();
}

}  // namespace cuda_stand_in

using cuda_stand_in::enqueue;

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  real(stream).wait();
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return real(stream).is_idle() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  enqueue(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto state = event->state;
  uint64_t mine = 0;
  {
    const std::scoped_lock lock(state->mutex);
    mine = ++state->recorded;
    state->stream = &real(stream);
  }
  enqueue(stream, [state, mine] {
    {
      const std::scoped_lock lock(state->mutex);
      state->passed = std::max(state->passed, mine);
      state->time = Clock::now();
    }
    state->changed.notify_all();
  });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto state = event->state;
  uint64_t wanted = 0;
  {
    const std::scoped_lock lock(state->mutex);
    wanted = state->recorded;
  }
  enqueue(stream, [state, wanted] { state->wait(wanted); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!cuda_stand_in::streams_are_threads && event->state->stream != nullptr)
    event->state->stream->wait();
  const std::scoped_lock lock(event->state->mutex);
  return event->state->passed >= event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (cudaEventQuery(start) != cudaSuccess || cudaEventQuery(end) != cudaSuccess)
    return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->state->time - start->state->time).count();
  return cudaSuccess;
}

}  // extern "C"
