// The processor's library of matrix products: oneDNN, or none; one of the two is linked.
#pragma once
#include <cstdint>
#include <memory>

#include "engine/device/device.h"

namespace engine {

class CpuProducts {
 public:
  explicit CpuProducts(int threads);
  ~CpuProducts();

  // Whether factors of this type are multiplied here, and fast: bf16 only where the processor does
  // it natively.
  bool multiplies(DType type) const;
  // Bytes that run() needs at `scratch`.
  int64_t scratch_bytes(const Matmul& product);
  void run(const Matmul& product, void* scratch);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace engine
