// The executors and types every kernel is tested with.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "tests/support/matrix.h"

namespace testing_support {

// The kernels on one group of 4 host threads: what CUDA will run, without a GPU.
std::unique_ptr<kernels::Kernels> make_group_kernels();

struct KernelCase {
  std::string executor;  // serial, baseline, v3, threads, group, or emulated (the CUDA device's)
  DType type;
  bool runs_here() const;
  std::unique_ptr<kernels::Kernels> make() const;
  // A barrier among threads on few cores takes long: groups get smaller cases.
  bool is_group() const { return executor == "group"; }
  DType statistics() const { return kernels::arithmetic_of(type); }
};

// A test body takes `k` (the kernels), `type` and `stat`.
class KernelTest : public testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    if (!GetParam().runs_here()) GTEST_SKIP() << "this processor lacks the instruction set";
    kernels_ = GetParam().make();
  }
  kernels::Kernels& k() { return *kernels_; }
  DType type() const { return GetParam().type; }
  DType stat() const { return GetParam().statistics(); }

 private:
  std::unique_ptr<kernels::Kernels> kernels_;
};

std::vector<KernelCase> all_kernel_cases();
std::string name_of_case(const testing::TestParamInfo<KernelCase>& info);

#define KERNEL_TESTS(suite)                                                                    \
  INSTANTIATE_TEST_SUITE_P(All, suite, testing::ValuesIn(testing_support::all_kernel_cases()), \
                           testing_support::name_of_case)

}  // namespace testing_support
