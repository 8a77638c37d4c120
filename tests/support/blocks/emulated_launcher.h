// The launcher that runs hand-tuned kernels in the emulation, and generic bodies on the host.
#pragma once
#include <memory>
#include <vector>

#include "kernels/group.h"
#include "tests/support/blocks/emulated_block.h"

namespace testing_support {

class EmulatedLauncher {
 public:
  explicit EmulatedLauncher(EmulationMode mode) : emulator_(new BlockEmulator(mode)) {}

  template <class T, class Kernel>
  void rows(int64_t count, int64_t, const Kernel& kernel) const {
    for (int64_t row = 0; row < count; ++row) kernel(kernels::SerialGroup{}, row);
  }
  int64_t column_block(int64_t) const { return 32; }
  int multiprocessors() const { return 3; }  // few, so that a kernel takes several rounds

  template <class Kernel>
  void blocks(int64_t count, const Kernel& kernel) {
    ++launches_;
    emulate_blocks(*emulator_, count, kernel);
  }
  // NaN at first, as every reader must have had a writer.
  void* scratch(int64_t bytes) {
    scratch_.assign(static_cast<size_t>(bytes + 15) / 16, {~uint64_t{0}, ~uint64_t{0}});
    return scratch_.data();
  }
  // How many hand-tuned kernels ran.
  int launches() const { return launches_; }

 private:
  struct alignas(16) Unit {
    uint64_t low, high;
  };
  std::unique_ptr<BlockEmulator> emulator_;
  std::vector<Unit> scratch_;
  int launches_ = 0;
};

}  // namespace testing_support
