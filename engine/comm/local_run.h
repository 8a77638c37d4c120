// What all thread ranks of one run share: where each of them sleeps, and the first failure.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace engine {

// Ends a rank because another one failed first; never leaves run_local.
struct PeerFailed : std::runtime_error {
  PeerFailed() : std::runtime_error("another rank of this run failed") {}
};

class LocalRun {
 public:
  explicit LocalRun(int ranks) : bells_(static_cast<size_t>(ranks)) {}

  // Keeps the first failure and wakes everybody.
  void fail(std::exception_ptr cause) {
    {
      const std::scoped_lock lock(mutex_);
      if (!cause_) cause_ = std::move(cause);
    }
    failed_ = true;
    for (int rank = 0; rank < static_cast<int>(bells_.size()); ++rank) wake(rank);
  }
  // Throws PeerFailed behind a failure.
  void check() const {
    if (failed_) throw PeerFailed();
  }
  // After all ranks have ended.
  std::exception_ptr cause() const { return cause_; }

  void wake(int rank) {
    Bell& bell = bells_[static_cast<size_t>(rank)];
    bell.rings.fetch_add(1);
    bell.rings.notify_all();
  }
  // Sleeps until ready() holds; whoever makes it true wakes this rank. Throws PeerFailed.
  template <class Ready>
  void sleep_until(int rank, const Ready& ready) {
    Bell& bell = bells_[static_cast<size_t>(rank)];
    while (true) {
      const int heard = bell.rings.load();
      check();
      if (ready()) return;
      bell.rings.wait(heard);
    }
  }

 private:
  // One a cache line. Every sleep of a rank is here, in a group of whatever size.
  struct alignas(64) Bell {
    std::atomic<int> rings{0};
  };
  std::vector<Bell> bells_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr cause_;
};

}  // namespace engine
