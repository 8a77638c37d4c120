// The executor every kernel is tested with on a GPU.
#include "engine/device/cuda/cuda_device.h"
#include "kernels/cuda.h"
#include "tests/support/kernel_cases.h"

namespace testing_support {
namespace {

// Lives as long as the tests.
engine::CudaDevice& device() {
  static engine::CudaDevice the_device(0);
  return the_device;
}

}  // namespace

bool KernelCase::runs_here() const { return true; }

std::unique_ptr<kernels::Kernels> KernelCase::make() const {
  return kernels::make_cuda_kernels(device().stream().get(),
                                    [](int64_t bytes) { return device().scratch(bytes); });
}

std::vector<KernelCase> all_kernel_cases() {
  std::vector<KernelCase> cases;
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) cases.push_back({"cuda", type});
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<KernelCase>& info) {
  return info.param.executor + "_" + std::string(kernels::name_of(info.param.type));
}

}  // namespace testing_support
