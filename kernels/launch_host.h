// Launchers that run kernel bodies on the host: serial groups shared out over threads, for speed,
// and groups of threads, for tests.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "kernels/group.h"
#include "kernels/instruction_set.h"
#include "kernels/parallel/parallel.h"

namespace kernels {

// Runs a kernel for the rows [begin, end). One copy a instruction set; `flatten` makes the body
// part of the function and so subject to its target.
template <class Kernel>
__attribute__((flatten)) void run_baseline(const void* kernel, int64_t begin, int64_t end) {
  const Kernel copy = *static_cast<const Kernel*>(kernel);
  for (int64_t row = begin; row < end; ++row) copy(SerialGroup{}, row);
}
#if defined(__x86_64__)
template <class Kernel>
__attribute__((flatten, target("arch=x86-64-v3"))) void run_v3(const void* kernel, int64_t begin,
                                                               int64_t end) {
  const Kernel copy = *static_cast<const Kernel*>(kernel);
  for (int64_t row = begin; row < end; ++row) copy(SerialGroup{}, row);
}
template <class Kernel>
__attribute__((flatten, target("arch=x86-64-v4,prefer-vector-width=512"))) void run_v4(
    const void* kernel, int64_t begin, int64_t end) {
  const Kernel copy = *static_cast<const Kernel*>(kernel);
  for (int64_t row = begin; row < end; ++row) copy(SerialGroup{}, row);
}
#endif

// The CPU's launcher.
class HostLauncher {
 public:
  explicit HostLauncher(int threads, InstructionSet set) : threads_(threads), set_(set) {}

  template <class T, class Kernel>
  void rows(int64_t count, int64_t work, const Kernel& kernel) const {
    // Below this many elements a thread starts later than one thread alone is done.
    constexpr int64_t kWorthSharing = 32768;
    const auto run = pick<T, Kernel>();
    if (threads_ == 1 || count == 1 || count * work < kWorthSharing) return run(&kernel, 0, count);
    // A few pieces a thread even out what a busy core or a causal mask makes uneven.
    const int64_t pieces = int64_t{4} * threads_;
    parallel_for(threads_, count, (count + pieces - 1) / pieces, run, &kernel);
  }
  int64_t column_block(int64_t cols) const {
    const int64_t share = (cols + threads_ - 1) / threads_;
    return (share + 63) / 64 * 64;
  }

 private:
  using Run = void (*)(const void*, int64_t, int64_t);
  template <class T, class Kernel>
  Run pick() const {
#if defined(__x86_64__)
    // f64 serves checks of gradients, where speed does not matter.
    if constexpr (!std::is_same_v<T, double>) {
      if (set_ == InstructionSet::x86_64_v4) return run_v4<Kernel>;
      if (set_ == InstructionSet::x86_64_v3) return run_v3<Kernel>;
    }
#endif
    return run_baseline<Kernel>;
  }
  int threads_;
  InstructionSet set_;
};

// A barrier whose threads sleep: spinning ones would keep the last from a core.
class SleepingBarrier {
 public:
  explicit SleepingBarrier(int size) : size_(size) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ < size_) return all_here_.wait(lock, [&] { return round_ != round; });
    arrived_ = 0;
    ++round_;
    all_here_.notify_all();
  }

 private:
  int size_;
  int arrived_ = 0;
  int64_t round_ = 0;
  std::mutex mutex_;
  std::condition_variable all_here_;
};

// N host threads that work on one row together, as a CUDA block would.
class ThreadGroup {
 public:
  static constexpr int kLeastSize = 1;
  struct Shared {
    explicit Shared(int size) : slots(static_cast<size_t>(size)), barrier(size) {}
    std::vector<double> slots;
    SleepingBarrier barrier;
  };
  ThreadGroup(Shared& shared, int rank) : shared_(&shared), rank_(rank) {}
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(shared_->slots.size()); }
  void sync() const { shared_->barrier.arrive_and_wait(); }
  template <class A>
  A sum(A x) const {
    return reduce(x, [](A a, A b) { return a + b; });
  }
  template <class A>
  A max(A x) const {
    return reduce(x, [](A a, A b) { return a < b ? b : a; });
  }

 private:
  template <class A, class F>
  A reduce(A x, F combine) const {
    shared_->slots[static_cast<size_t>(rank_)] = static_cast<double>(x);
    sync();
    A result = static_cast<A>(shared_->slots[0]);
    for (size_t i = 1; i < shared_->slots.size(); ++i)
      result = combine(result, static_cast<A>(shared_->slots[i]));
    sync();
    return result;
  }
  Shared* shared_;
  int rank_;
};

// One group of `threads`, which walks through the rows; blocks of columns are as narrow as on a
// GPU.
struct ThreadLauncher {
  int threads;

  template <class T, class Kernel>
  void rows(int64_t count, int64_t, const Kernel& kernel) const {
    ThreadGroup::Shared shared(threads);
    std::vector<std::jthread> team;
    for (int rank = 0; rank < threads; ++rank)
      team.emplace_back([&, rank] {
        const ThreadGroup group(shared, rank);
        for (int64_t row = 0; row < count; ++row) {
          kernel(group, row);
          group.sync();
        }
      });
  }
  int64_t column_block(int64_t) const { return 32; }
};

}  // namespace kernels
