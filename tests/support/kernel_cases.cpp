// The executors and types every kernel is tested with.
#include "tests/support/kernel_cases.h"

#include "tests/support/blocks/emulated_kernels.h"

namespace testing_support {

using kernels::InstructionSet;

bool KernelCase::runs_here() const {
  return executor != "v3" || kernels::best_instruction_set() >= InstructionSet::x86_64_v3;
}

std::unique_ptr<kernels::Kernels> KernelCase::make() const {
  if (executor == "group") return make_group_kernels();
  if (executor == "emulated")
    return std::make_unique<EmulatedKernels>(EmulationMode{LaneOrder::shuffled});
  if (executor == "baseline") return kernels::make_cpu_kernels(1, InstructionSet::baseline);
  if (executor == "v3") return kernels::make_cpu_kernels(1, InstructionSet::x86_64_v3);
  return kernels::make_cpu_kernels(executor == "threads" ? 3 : 1);
}

std::vector<KernelCase> all_kernel_cases() {
  std::vector<KernelCase> cases;
  for (const char* executor : {"serial", "baseline", "v3", "threads", "group"})
    for (const DType type : {DType::f32, DType::bf16, DType::f64})
      cases.push_back({executor, type});
  cases.push_back({"emulated", DType::bf16});
  return cases;
}

std::string name_of_case(const testing::TestParamInfo<KernelCase>& info) {
  return info.param.executor + "_" + std::string(kernels::name_of(info.param.type));
}

}  // namespace testing_support
