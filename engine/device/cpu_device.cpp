// The CPU as a device: memory from an arena, products by a library, kernels by vectorised loops.
#include <fmt/format.h>

#include <cstring>

#include "engine/device/arena.h"
#include "engine/device/device.h"
#include "engine/device/plain_matmul.h"
#include "engine/device/products.h"

namespace engine {
namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads)
      : threads_(threads), kernels_(kernels::make_cpu_kernels(threads)), products_(threads) {}

  void copy_to_device(void* dst, const void* src, int64_t bytes) override { copy(dst, src, bytes); }
  void copy_to_host(void* dst, const void* src, int64_t bytes) override { copy(dst, src, bytes); }
  void copy(void* dst, const void* src, int64_t bytes) override {
    if (bytes > 0) std::memmove(dst, src, static_cast<size_t>(bytes));
  }
  kernels::Kernels& kernels() override { return *kernels_; }
  void synchronize() override {}
  bool shares_host_memory() const override { return true; }
  bool multiplies(DType type) const override {
    return type == DType::f32 || type == DType::f64 || products_.multiplies(type);
  }
  std::string description() const override {
    return fmt::format("this processor on {} thread{}", threads_, threads_ == 1 ? "" : "s");
  }

 protected:
  void* take(int64_t bytes) override { return arena_.allocate(bytes); }
  void give_back(void* data, int64_t bytes) noexcept override { arena_.release(data, bytes); }
  void multiply(const Matmul& product) override {
    if (!products_.multiplies(product.a.type)) return multiply_by_loops(product);
    const int64_t scratch_bytes = products_.scratch_bytes(product);
    if (scratch_bytes == 0) return products_.run(product, nullptr);
    const Buffer scratch(*this, scratch_bytes, MemoryUse::workspace);
    products_.run(product, scratch.data());
  }

 private:
  void multiply_by_loops(const Matmul& product) {
    multiply_plainly(product);
    if (!product.activation) return;
    View c = product.c;
    for (int64_t i = 0; i < product.batch; ++i) {
      kernels_->bias_activation_forward(c, {}, c, *product.activation);
      c.data = static_cast<std::byte*>(c.data) + product.c_step * kernels::bytes_of(c.type);
    }
  }

  int threads_;
  Arena arena_;
  std::unique_ptr<kernels::Kernels> kernels_;
  CpuProducts products_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  expect(threads > 0, "a device has at least one thread");
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace engine
