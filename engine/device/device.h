// Device: the memory, the matrix products and the kernels that one rank computes with.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/errors.h"
#include "engine/device/meter.h"
#include "kernels/kernels.h"

namespace engine {

using kernels::ConstView;
using kernels::DType;
using kernels::View;

// A device is asked for more memory than it has. In a trial this is an outcome, not a failure.
class OutOfMemory : public Error {
 public:
  OutOfMemory(int64_t requested, int64_t in_use, int64_t capacity, MemoryUse use);
  int64_t requested_bytes() const { return requested_; }
  int64_t in_use_bytes() const { return in_use_; }
  int64_t capacity_bytes() const { return capacity_; }
  MemoryUse use() const { return use_; }

 private:
  int64_t requested_, in_use_, capacity_;
  MemoryUse use_;
};

// c = alpha · op(a) · op(b) + beta · c, or with an epilogue c = F(op(a) · op(b) + bias).
// op(a) is [m, k], op(b) [k, n], c [m, n]; op transposes where asked. With `batch` > 1 the views
// are the first of many, whose data lie `*_step` elements apart (a step of 0 repeats the operand).
struct Matmul {
  ConstView a, b;
  View c;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 0;
  int64_t batch = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;
  ConstView bias;  // [1, n] of a's type; only with alpha 1 and beta 0
  std::optional<kernels::Activation> activation;

  int64_t m() const { return c.rows; }
  int64_t n() const { return c.cols; }
  int64_t k() const { return transpose_a ? a.rows : a.cols; }
};

// Times phases of a device's work without waiting for it in between.
class DeviceClock {
 public:
  virtual ~DeviceClock() = default;
  // The end of one phase and the begin of the next, behind the work asked for so far.
  virtual void mark() = 0;
  // Seconds between the marks since the last reading; the device must be idle.
  virtual std::vector<double> read() = 0;
};

// One rank's device; used by one thread at a time. Calls may return before the work is done.
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Uninitialised memory, aligned to 64 bytes; throws OutOfMemory. Use Buffer or Tensor, which give
  // it back.
  void* allocate(int64_t bytes, MemoryUse use);
  void release(void* data, int64_t bytes, MemoryUse use) noexcept;

  virtual void copy_to_device(void* dst, const void* src, int64_t bytes) = 0;
  virtual void copy_to_host(void* dst, const void* src, int64_t bytes) = 0;  // waits
  virtual void copy(void* dst, const void* src, int64_t bytes) = 0;
  virtual kernels::Kernels& kernels() = 0;
  virtual void synchronize() = 0;
  // Whether its memory is the host's, which may read and write it as its own.
  virtual bool shares_host_memory() const { return false; }

  // a and b of one type; c of that type, or f32 for bf16. Throws std::logic_error for wrong shapes
  // and Error where the processor has no products of this type.
  void matmul(const Matmul& product);
  virtual bool multiplies(DType type) const = 0;

  // Bytes that may be in use at once, on top of what the machine has; for plans that must not fit.
  virtual void set_capacity(int64_t bytes) { capacity_ = bytes; }
  int64_t capacity() const { return capacity_; }
  Meter& meter() { return meter_; }
  const Meter& meter() const { return meter_; }
  virtual std::string description() const = 0;
  // By the host's clock, for devices that work while they are called.
  virtual std::unique_ptr<DeviceClock> make_clock();

 protected:
  Device() = default;
  // Throw std::bad_alloc when the machine has no more.
  virtual void* take(int64_t bytes) = 0;
  virtual void give_back(void* data, int64_t bytes) noexcept = 0;
  // `product` is checked and not empty.
  virtual void multiply(const Matmul& product) = 0;

 private:
  Meter meter_;
  int64_t capacity_ = std::numeric_limits<int64_t>::max();
};

// Owns memory of a device. May be empty.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, int64_t bytes, MemoryUse use)
      : device_(&device), data_(device.allocate(bytes, use)), bytes_(bytes), use_(use) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }

  void reset() noexcept {
    if (data_ != nullptr) device_->release(data_, bytes_, use_);
    data_ = nullptr;
  }
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
  }
  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::workspace;
};

// This machine's processor, on `threads` threads. Products of f32 and f64 (slowly, for checks of
// gradients), and of bf16 where the processor multiplies it.
std::unique_ptr<Device> make_cpu_device(int threads);

}  // namespace engine
