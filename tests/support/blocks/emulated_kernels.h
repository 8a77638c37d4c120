// The CUDA device's op set in the emulation, and what tests of hand-tuned kernels share.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/basic_kernels.h"
#include "kernels/cuda/tuned_launcher.h"
#include "tests/support/blocks/emulated_launcher.h"

namespace testing_support {

using TunedEmulation = kernels::TunedLauncher<EmulatedLauncher>;
class EmulatedKernels final : public kernels::BasicKernels<TunedEmulation> {
 public:
  explicit EmulatedKernels(EmulationMode mode = {})
      : BasicKernels<TunedEmulation>(TunedEmulation(mode)) {}
  // How many hand-tuned kernels ran.
  int launches() const { return launcher().launches(); }
};

// Orders of lanes and copies that differ as much as they can; three suffice for large cases.
inline std::vector<EmulationMode> emulation_modes() {
  return {
      {LaneOrder::ascending, true}, {LaneOrder::descending, false}, {LaneOrder::shuffled, true}};
}

}  // namespace testing_support
