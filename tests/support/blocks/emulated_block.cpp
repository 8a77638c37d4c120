// The scheduler of an emulated block, and what its warps do together.
#include "tests/support/blocks/emulated_block.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/blocks/fiber.h"
#include "tests/support/blocks/warp_operations.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace testing_support {
namespace {

using kernels::cuda::kWarpSize;

// Shared memory of a block: NaN at first, with a guard on either side.
class SharedMemory {
 public:
  void prepare(int64_t bytes) {
    forbid(false);
    bytes_ = static_cast<size_t>(bytes);
    memory_.assign(bytes_ + 2 * kGuard + kAlignment, std::byte{0xff});
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    data_ = memory_.data() + kGuard + (kAlignment - address % kAlignment) % kAlignment;
    forbid(true);
  }
  ~SharedMemory() { forbid(false); }
  std::byte* data() const { return data_; }
  bool holds(uint32_t offset, size_t bytes) const { return offset + bytes <= bytes_; }
  bool guards_are_whole() {
    forbid(false);
    const auto whole = [](std::byte b) { return b == std::byte{0xff}; };
    return std::all_of(data_ - kGuard, data_, whole) &&
           std::all_of(data_ + bytes_, data_ + bytes_ + kGuard, whole);
  }

 private:
  static constexpr size_t kGuard = 256, kAlignment = 128;
  // Whether AddressSanitizer reports accesses to the guards.
  void forbid([[maybe_unused]] bool forbidden) {
#if defined(__SANITIZE_ADDRESS__)
    if (data_ == nullptr) return;
    const auto set = [&](std::byte* p) {
      forbidden ? __asan_poison_memory_region(p, kGuard) : __asan_unpoison_memory_region(p, kGuard);
    };
    set(data_ - kGuard);
    set(data_ + bytes_);
#endif
  }
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

struct Copy {
  void* shared;
  const void* global;
  int bytes;
  bool present;
  void perform() const {
    if (present)
      std::memcpy(shared, global, static_cast<size_t>(bytes));
    else
      std::memset(shared, 0, static_cast<size_t>(bytes));
  }
};

struct WarpBarrier {};
struct BlockBarrier {};
struct Running {};
struct Finished {};
// What a thread waits for: operands stand on its stack.
using Wait = std::variant<Running, BlockBarrier, Finished, WarpBarrier, BlockEmulator::Shuffle*,
                          BlockEmulator::MatrixLoad*, BlockEmulator::Product*>;
constexpr const char* kWaitNames[] = {"running",     "sync",          "its end",     "sync_warp",
                                      "shuffle_xor", "load_matrices", "multiply_add"};
const char* name_of(const Wait& wait) { return kWaitNames[wait.index()]; }

struct Thread {
  Fiber fiber;
  Wait wait;
  std::vector<std::vector<Copy>> groups;  // copies that have not arrived; the last is open
  bool runs() const { return std::holds_alternative<Running>(wait); }
};

}  // namespace

struct BlockEmulator::Block {
  EmulationMode mode;
  std::mt19937 random;
  std::vector<Thread> threads;
  SharedMemory shared;
  const std::function<void()>* body = nullptr;
  std::string fault;  // of the running thread
  int64_t index = 0;
  int count = 0, current = 0;

  explicit Block(EmulationMode m) : mode(m), random(m.seed) {}

  [[noreturn]] void raise(int thread, const std::string& what) const {
    throw KernelFault("block " + std::to_string(index) + ", thread " + std::to_string(thread) +
                      ": " + what);
  }
  std::vector<int> ordered(int first, int n) {
    std::vector<int> order(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i)
      order[static_cast<size_t>(i)] =
          mode.order == LaneOrder::descending ? first + n - 1 - i : first + i;
    if (mode.order == LaneOrder::shuffled) std::shuffle(order.begin(), order.end(), random);
    return order;
  }
  Thread& thread(int i) { return threads[static_cast<size_t>(i)]; }

  void pause(Wait wait) {
    thread(current).wait = wait;
    thread(current).fiber.pause();
  }
  // Reports what the running thread did wrong; it never runs again.
  void stop(const std::string& what) {
    fault = what;
    thread(current).fiber.pause();
  }
  void resume(int i) {
    current = i;
    if (!thread(i).fiber.resume()) thread(i).wait = Finished{};
    if (!fault.empty()) raise(i, std::exchange(fault, {}));
  }

  // Runs the lanes of a warp until each waits for more than the warp, or (one_step) for the next
  // call of the whole warp. False when nothing ran.
  bool run_warp(int first, bool one_step) {
    bool ran = false;
    do {
      bool ran_now = false;
      for (const int lane : ordered(first, kWarpSize))
        if (thread(lane).runs()) {
          resume(lane);
          ran_now = true;
        }
      if (!ran_now) break;
      ran = true;
      finish_warp_operation(first);
    } while (!one_step);
    return ran;
  }

  // If the lanes wait for each other, does what they wait for.
  void finish_warp_operation(int first) {
    const Wait& wait = thread(first).wait;
    for (int i = first + 1; i < first + kWarpSize; ++i)
      if (thread(i).wait.index() != wait.index())
        raise(i, std::string("is at ") + name_of(thread(i).wait) +
                     " while lane 0 of its warp is at " + name_of(wait));
    if (std::holds_alternative<BlockBarrier>(wait) || std::holds_alternative<Finished>(wait))
      return;
    perform(first);
    for (int i = first; i < first + kWarpSize; ++i) thread(i).wait = Running{};
  }
  template <class Operands>
  WarpOperands<Operands> operands(int first) {
    WarpOperands<Operands> all;
    for (int i = 0; i < kWarpSize; ++i)
      all[static_cast<size_t>(i)] = std::get<Operands*>(thread(first + i).wait);
    return all;
  }
  void perform(int first) {
    const Wait& wait = thread(first).wait;
    if (std::holds_alternative<Shuffle*>(wait)) {
      if (!warp_shuffle(operands<Shuffle>(first)))
        raise(first, "lanes shuffle with different or too large masks");
    } else if (std::holds_alternative<Product*>(wait)) {
      warp_multiply_add(operands<Product>(first));
    } else if (std::holds_alternative<MatrixLoad*>(wait)) {
      const auto rows = operands<MatrixLoad>(first);
      for (int i = 0; i < kWarpSize; ++i) {
        const uint32_t offset = rows[static_cast<size_t>(i)]->offset;
        if (!shared.holds(offset, 16) || offset % 16 != 0)
          raise(first + i, "loads a matrix row that is misaligned or not in shared memory");
      }
      warp_load_matrices(shared.data(), rows);
    }
  }

  void run() {
    std::vector<int> warps(static_cast<size_t>(count / kWarpSize));
    for (;;) {
      bool ran = false;
      for (int warp : ordered(0, count / kWarpSize))
        ran |= run_warp(warp * kWarpSize, mode.order == LaneOrder::shuffled);
      if (!ran && !release_barrier()) return;
    }
  }
  // False when all threads are done.
  bool release_barrier() {
    for (int i = 1; i < count; ++i)
      if (thread(i).wait.index() != thread(0).wait.index())
        raise(i, std::string("is at ") + name_of(thread(i).wait) + " while thread 0 is at " +
                     name_of(thread(0).wait));
    if (std::holds_alternative<Finished>(thread(0).wait)) return false;
    for (int i = 0; i < count; ++i) thread(i).wait = Running{};
    return true;
  }
};

BlockEmulator::BlockEmulator(EmulationMode mode) : block_(std::make_unique<Block>(mode)) {}
BlockEmulator::~BlockEmulator() = default;

void BlockEmulator::run(int64_t index, int threads, int64_t shared_bytes,
                        const std::function<void()>& body) {
  Block& b = *block_;
  b.index = index;
  b.count = threads;
  b.body = &body;
  b.fault.clear();
  if (shared_bytes > kernels::cuda::kMostSharedBytes)
    b.raise(0, "asks for more shared memory than a block can have");
  b.shared.prepare(shared_bytes);
  while (static_cast<int>(b.threads.size()) < threads) b.threads.emplace_back();
  for (int i = 0; i < threads; ++i) {
    Thread& thread = b.thread(i);
    thread.wait = Running{};
    thread.groups.assign(1, {});
    thread.fiber.start([](void* block) { (*static_cast<Block*>(block)->body)(); }, &b);
  }
  b.run();
  if (!b.shared.guards_are_whole()) b.raise(0, "somebody wrote beside the shared memory");
}

int64_t BlockEmulator::index() const { return block_->index; }
int BlockEmulator::thread() const { return block_->current; }
std::byte* BlockEmulator::shared() const { return block_->shared.data(); }
void BlockEmulator::barrier() { block_->pause(BlockBarrier{}); }
void BlockEmulator::warp_barrier() { block_->pause(WarpBarrier{}); }
void BlockEmulator::shuffle(Shuffle& operands) { block_->pause(&operands); }
void BlockEmulator::load_matrices(MatrixLoad& operands) { block_->pause(&operands); }
void BlockEmulator::multiply_add(Product& operands) { block_->pause(&operands); }

void BlockEmulator::copy(uint32_t offset, const void* global, int bytes, bool present) {
  const auto size = static_cast<uintptr_t>(bytes);
  if (!block_->shared.holds(offset, size)) block_->stop("copies outside the shared memory");
  if (offset % size != 0 || reinterpret_cast<uintptr_t>(global) % size != 0)
    block_->stop("copies a misaligned piece");
  const Copy copy{shared() + offset, global, bytes, present};
  if (block_->mode.late_copies)
    block_->thread(block_->current).groups.back().push_back(copy);
  else
    copy.perform();
}
void BlockEmulator::commit_copies() { block_->thread(block_->current).groups.emplace_back(); }
void BlockEmulator::wait_copies(int pending) {
  auto& groups = block_->thread(block_->current).groups;
  while (static_cast<int>(groups.size()) > pending + 1) {
    for (const Copy& copy : groups.front()) copy.perform();
    groups.erase(groups.begin());
  }
}

}  // namespace testing_support
