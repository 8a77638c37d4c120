// The CUDA device's op set in the emulation, and what tests of hand-tuned kernels share.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/tuned_kernels.h"
#include "tests/support/blocks/emulated_launcher.h"

namespace testing_support {

class EmulatedKernels final : public kernels::TunedKernels<EmulatedLauncher> {
 public:
  explicit EmulatedKernels(EmulationMode mode = {})
      : TunedKernels<EmulatedLauncher>(EmulatedLauncher(mode)) {}
  int launches() { return launcher().launches(); }
};

// Orders of lanes and copies that differ as much as they can; three suffice for large cases.
inline std::vector<EmulationMode> emulation_modes() {
  return {
      {LaneOrder::ascending, true}, {LaneOrder::descending, false}, {LaneOrder::shuffled, true}};
}

}  // namespace testing_support
