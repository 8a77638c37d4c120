// Matrix products by cuBLASLt, each shape prepared once.
#pragma once
#include <memory>

#include "engine/device/device.h"

namespace engine {

class CudaDevice;

class CublasProducts {
 public:
  explicit CublasProducts(CudaDevice& device);
  ~CublasProducts();

  // `product` as Device::multiply gets it. Factors of bf16 are summed in f32, f32 without TF32.
  // Bias, GeLU (tanh) and ReLU are made by the product itself, other activations by a kernel.
  void run(const Matmul& product);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace engine
