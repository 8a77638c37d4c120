// Tensors: ownership, views and shapes.
#include "engine/tensor/tensor.h"

#include <gtest/gtest.h>

namespace {

using engine::DType;
using engine::MemoryUse;
using engine::Tensor;

class TensorTest : public testing::Test {
 protected:
  std::unique_ptr<engine::Device> device = engine::make_cpu_device(1);
};

TEST_F(TensorTest, OwnsItsMemory) {
  {
    Tensor a(*device, {3, 4, 5}, DType::bf16, MemoryUse::activation);
    EXPECT_EQ(a.elements(), 60);
    EXPECT_EQ(a.bytes(), 120);
    EXPECT_EQ(a.dim(0), 3);
    EXPECT_EQ(a.dim(-1), 5);
    EXPECT_EQ(device->meter().in_use(MemoryUse::activation), 120);
    Tensor b = std::move(a);
    EXPECT_EQ(device->meter().in_use(), 120);
    b.reset();
    EXPECT_TRUE(b.empty());
    EXPECT_EQ(device->meter().in_use(), 0);
  }
  EXPECT_EQ(device->meter().in_use(), 0);
}

TEST_F(TensorTest, ViewsShareMemoryAndOwnNone) {
  const Tensor a(*device, {4, 6}, DType::f32, MemoryUse::activation);
  for (int i = 0; i < 24; ++i) a.as<float>()[i] = float(i);
  {
    const Tensor rows = a.slice(1, 2);
    EXPECT_EQ(rows.shape(), (std::vector<int64_t>{2, 6}));
    EXPECT_EQ(rows.as<float>()[0], 6);
    EXPECT_EQ(a.reshaped({2, 2, 6}).slice(1, 1).as<float>()[0], 12);
  }
  EXPECT_EQ(device->meter().in_use(), 96);
}

TEST_F(TensorTest, IsAMatrixForKernels) {
  const Tensor a(*device, {2, 3, 4}, DType::f32, MemoryUse::activation);
  EXPECT_EQ(a.view().rows, 6);
  EXPECT_EQ(a.view().cols, 4);
  EXPECT_EQ(a.view(12).rows, 2);
  device->kernels().fill(a, 2);
  EXPECT_EQ(a.as<float>()[23], 2);
  EXPECT_TRUE(Tensor().view().empty());
}

TEST_F(TensorTest, RefusesWhatDoesNotFit) {
  const Tensor a(*device, {4, 6}, DType::f32, MemoryUse::activation);
  EXPECT_THROW(a.slice(3, 2), std::logic_error);
  EXPECT_THROW(a.reshaped({5, 5}), std::logic_error);
  EXPECT_THROW(a.as<double>(), std::logic_error);
  EXPECT_THROW(a.dim(2), std::logic_error);
}

}  // namespace
