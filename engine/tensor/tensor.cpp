// Tensor: a shape and a type over memory of a device, owned or seen.
#include "engine/tensor/tensor.h"

namespace engine {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    expect(dim >= 0, "a dim is not negative");
    count *= dim;
  }
  return count;
}

}  // namespace

Tensor::Tensor(Device& device, std::vector<int64_t> shape, DType type, MemoryUse use)
    : buffer_(device, product(shape) * kernels::bytes_of(type), use),
      data_(buffer_.data()),
      shape_(std::move(shape)),
      type_(type) {}

Tensor::Tensor(void* data, std::vector<int64_t> shape, DType type)
    : data_(data), shape_(std::move(shape)), type_(type) {}

int64_t Tensor::dim(int index) const {
  const int count = static_cast<int>(shape_.size());
  const int from_front = index < 0 ? count + index : index;
  expect(from_front >= 0 && from_front < count, "a tensor has the dim asked for");
  return shape_[static_cast<size_t>(from_front)];
}

int64_t Tensor::elements() const { return empty() ? 0 : product(shape_); }

Tensor Tensor::slice(int64_t first, int64_t count) const {
  expect(first >= 0 && count >= 0 && first + count <= dim(0), "a slice lies within its tensor");
  std::vector<int64_t> shape = shape_;
  shape[0] = count;
  const int64_t row_bytes = dim(0) == 0 ? 0 : bytes() / dim(0);
  return {static_cast<std::byte*>(data_) + first * row_bytes, std::move(shape), type_};
}

Tensor Tensor::reshaped(std::vector<int64_t> shape) const {
  expect(product(shape) == elements(), "a reshaped tensor keeps its elements");
  return {data_, std::move(shape), type_};
}

View Tensor::view() const { return view(shape_.empty() ? 1 : shape_.back()); }

View Tensor::view(int64_t cols) const {
  if (empty()) return {};
  if (elements() == 0) return {data_, type_, 0, cols};
  expect(cols > 0 && elements() % cols == 0, "the columns of a view divide the elements");
  return {data_, type_, elements() / cols, cols};
}

}  // namespace engine
