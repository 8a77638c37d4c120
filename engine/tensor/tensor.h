// Tensor: a shape and a type over memory of a device, owned or seen.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "engine/device/device.h"

namespace engine {

// Dense, row-major. A tensor owns its memory unless it is a view (slice, reshaped, flat), which
// must not outlive what it was made from. Copies are explicit.
class Tensor {
 public:
  Tensor() = default;
  // Uninitialised; throws OutOfMemory.
  Tensor(Device& device, std::vector<int64_t> shape, DType type, MemoryUse use);
  // Sees memory of somebody else.
  Tensor(void* data, std::vector<int64_t> shape, DType type);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) noexcept = default;

  bool empty() const { return data_ == nullptr; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t dim(int index) const;  // from the back when negative
  DType type() const { return type_; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * kernels::bytes_of(type_); }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    expect(kernels::dtype_of<T>() == type_, "a tensor is read as the type it has");
    return static_cast<T*>(data_);
  }

  // Gives the memory back early; the tensor is empty then.
  void reset() { *this = Tensor(); }

  // Views. `slice` is [first, first + count) of the first dim.
  Tensor slice(int64_t first, int64_t count) const;
  Tensor reshaped(std::vector<int64_t> shape) const;

  // As a matrix: the last dim is the columns, all others are rows; a vector is one row. With `cols`
  // given, rows of that many elements.
  View view() const;
  View view(int64_t cols) const;
  operator View() const { return view(); }       // NOLINT: kernels take tensors
  operator ConstView() const { return view(); }  // NOLINT

 private:
  Buffer buffer_;
  void* data_ = nullptr;
  std::vector<int64_t> shape_;
  DType type_ = DType::f32;
};

}  // namespace engine
