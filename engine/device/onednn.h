// Matrix products by oneDNN, each shape prepared once.
#pragma once
#include <cstdint>
#include <memory>

#include "engine/device/device.h"

namespace engine {

class OnednnProducts {
 public:
  explicit OnednnProducts(int threads);
  ~OnednnProducts();

  // Whether the processor multiplies bf16 natively; without, oneDNN is slower than with f32.
  bool multiplies_bf16() const;
  // Bytes that run() needs at `scratch`.
  int64_t scratch_bytes(const Matmul& product);
  void run(const Matmul& product, void* scratch);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace engine
