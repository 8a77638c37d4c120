// CudaDevice: a GPU, or the share of one that a rank computes with.
#pragma once
#include <memory>
#include <optional>

#include "engine/device/cuda/staging.h"
#include "engine/device/cuda/stream.h"
#include "engine/device/device.h"

namespace engine {

class CublasProducts;

// Usable GPUs: 0 where there is no driver or none of compute capability 8.0 and later.
int cuda_gpus();

class CudaDevice final : public Device {
 public:
  // GPU number `gpu`, which becomes the calling thread's; the device is used by that thread only.
  // Its capacity is its share of what is free now, when `sharers` ranks use the GPU. Throws Error
  // (environment) where there is no such GPU.
  explicit CudaDevice(int gpu, int sharers = 1);
  ~CudaDevice() override;

  void copy_to_device(void* dst, const void* src, int64_t bytes) override;
  void copy_to_host(void* dst, const void* src, int64_t bytes) override;
  void copy(void* dst, const void* src, int64_t bytes) override;
  kernels::Kernels& kernels() override { return *kernels_; }
  void synchronize() override { stream_.synchronize(look_); }
  bool multiplies(DType type) const override { return type != DType::i32; }
  void set_capacity(int64_t bytes) override;
  std::string description() const override { return description_; }
  std::unique_ptr<DeviceClock> make_clock() override;

  int gpu() const { return gpu_; }
  // All work of the device is on it, in the order in which it was asked for.
  CudaStream& stream() { return stream_; }
  // Where its memory comes from; other streams of the GPU may take and free there, too.
  cudaMemPool_t pool() const { return pool_; }
  // Workspace of at least so many bytes for kernels of one call; the next call may give the same.
  void* scratch(int64_t bytes);
  // Called while the host waits for the device; throws where waiting has lost its sense, as when
  // another rank is gone.
  void set_look(Look look) { look_ = std::move(look); }

 protected:
  void* take(int64_t bytes) override;
  void give_back(void* data, int64_t bytes) noexcept override;
  void multiply(const Matmul& product) override;

 private:
  int gpu_;
  std::string description_;
  CudaStream stream_;
  Look look_;
  HostStaging staging_;
  cudaMemPool_t pool_ = nullptr;
  std::unique_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<CublasProducts> products_;
  Buffer scratch_;
};

}  // namespace engine
