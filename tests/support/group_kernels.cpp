// The op set on groups of host threads.
#include "kernels/basic_kernels.h"
#include "kernels/launch_host.h"
#include "tests/support/kernel_cases.h"

namespace testing_support {

std::unique_ptr<kernels::Kernels> make_group_kernels() {
  return std::make_unique<kernels::BasicKernels<kernels::ThreadLauncher>>(
      kernels::ThreadLauncher{4});
}

}  // namespace testing_support
