// View: a typed matrix in device memory that somebody else owns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/scalar.h"

namespace kernels {

enum class DType : uint8_t { f32, bf16, f64, i32 };
constexpr int64_t bytes_of(DType type) {
  return type == DType::f64 ? 8 : (type == DType::bf16 ? 2 : 4);
}
constexpr std::string_view name_of(DType type) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "f64", "i32"};
  return kNames[static_cast<int>(type)];
}
// The type of statistics, parameter gradients and sums that belong to values of `type`.
constexpr DType arithmetic_of(DType type) { return type == DType::f64 ? type : DType::f32; }

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
}

// `rows` × `cols` elements; the start of a row lies `stride` elements behind that of the row
// before. A vector is one row. An empty view (no data) stands for an operand that is left out.
template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  DType type = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  BasicView() = default;
  BasicView(Pointer data_, DType type_, int64_t rows_, int64_t cols_, int64_t stride_ = 0)
      : data(data_), type(type_), rows(rows_), cols(cols_), stride(stride_ ? stride_ : cols_) {}
  template <class Other>
  requires std::is_convertible_v<Other, Pointer> BasicView(
      const BasicView<Other>& other)  // NOLINT: a View may stand where a ConstView is asked
      : BasicView(other.data, other.type, other.rows, other.cols, other.stride) {}

  bool empty() const { return data == nullptr; }
  bool contiguous() const { return stride == cols || rows <= 1; }
  int64_t elements() const { return rows * cols; }

  // `count` columns or rows from `first` on, of the same memory.
  BasicView columns(int64_t first, int64_t count) const {
    return {at(first), type, rows, count, stride};
  }
  BasicView row_range(int64_t first, int64_t count) const {
    return {at(first * stride), type, count, cols, stride};
  }

 private:
  Pointer at(int64_t element) const {
    using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte, const std::byte>;
    return static_cast<Byte*>(data) + element * bytes_of(type);
  }
};
using View = BasicView<void*>;
using ConstView = BasicView<const void*>;

// The rows of a view as a kernel sees them; absent when the view was empty.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  HOST_DEVICE T* operator[](int64_t row) const { return data + row * stride; }
  HOST_DEVICE explicit operator bool() const { return data != nullptr; }
};

}  // namespace kernels
