// TensorSlice: strided copies with conversion.
#include "engine/checkpoint/tensor_slice.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/errors.h"
#include "kernels/scalar.h"

namespace engine {
namespace {

using kernels::bfloat16;

// IEEE half precision; only ever read.
struct Half {
  uint16_t bits;
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {  // zero and subnormal numbers: multiples of 2^-24
      const float size = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -size : size;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
  }
};

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, double> || std::is_same_v<To, double>) {
    if constexpr (std::is_arithmetic_v<From> && std::is_arithmetic_v<To>)
      return static_cast<To>(value);
    else
      return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

// A rectangle of a slice: `rows` × `columns` elements, in memory `stride` elements from row to row.
struct Rectangle {
  int64_t row, column;  // within the slice
  int64_t rows, columns;
  int64_t memory;  // element of its first, in memory
  int64_t stride;
};

// At most a part of a row, whole rows, and a part of a row.
template <class Memory>
std::vector<Rectangle> rectangles_of(const TensorSlice& slice, ElementRange range,
                                     const Memory& memory) {
  const int64_t stride = memory.cols == slice.columns ? memory.stride : slice.columns;
  std::vector<Rectangle> found;
  for (int64_t done = 0; done < range.count;) {
    const int64_t row = (range.first + done) / slice.columns;
    const int64_t column = (range.first + done) % slice.columns;
    const int64_t left = range.count - done;
    const int64_t rows = column == 0 ? std::max<int64_t>(1, left / slice.columns) : 1;
    const int64_t columns = std::min(left, slice.columns - column);
    found.push_back({row, column, rows, columns, done, stride});
    done += rows * columns;
  }
  return found;
}

// How far apart neighbours of a slice lie in the stored tensor, in elements.
struct StoredStrides {
  int64_t row, column;
  int64_t whole_rows;

  explicit StoredStrides(const TensorSlice& slice) {
    const bool matrix = slice.shape.size() == 2;
    const int64_t across = slice.shape.back();
    row = matrix ? (slice.transposed ? 1 : across) : 0;
    column = matrix && slice.transposed ? across : 1;
    whole_rows = matrix ? slice.shape[slice.transposed ? 1 : 0] : 1;
  }
  int64_t at(const TensorSlice& slice, int64_t r, int64_t c) const {
    return (slice.first_row + r) * row + (slice.first_column + c) * column;
  }
};

void check(const TensorSlice& slice, ElementRange range, const kernels::ConstView& memory) {
  const bool matrix = slice.shape.size() == 2;
  expect(matrix || (slice.shape.size() == 1 && slice.rows == 1 && slice.first_row == 0),
         "a slice of a matrix or a vector");
  const int64_t across = slice.shape[matrix && !slice.transposed ? 1 : 0];
  expect(slice.first_column >= 0 && slice.first_row >= 0 &&
             slice.first_column + slice.columns <= across,
         "a slice within its tensor");
  expect(range.first >= 0 && range.count >= 0 && range.first + range.count <= slice.elements(),
         "a range within its slice");
  expect(memory.elements() == range.count, "memory of the range's size");
  expect(memory.contiguous() || (memory.cols == slice.columns && memory.rows == slice.rows),
         "memory with gaps only for a whole slice");
}

// Side of the square tiles in which transposed elements are copied.
constexpr int64_t kTile = 32;

template <class To, class From>
void read_rectangle(const Rectangle& part, const StoredStrides& strides, const std::byte* from,
                    To* to) {
  const auto copy = [&](int64_t r, int64_t c, int64_t column_stride) {
    From value;
    std::memcpy(&value, from + (r * strides.row + c * column_stride) * int64_t{sizeof(From)},
                sizeof(From));
    to[r * part.stride + c] = convert<To>(value);
  };
  if (strides.column == 1) {
    for (int64_t r = 0; r < part.rows; ++r)
      for (int64_t c = 0; c < part.columns; ++c) copy(r, c, 1);
    return;
  }
  for (int64_t r0 = 0; r0 < part.rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < part.columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(part.rows, r0 + kTile); ++r)
        for (int64_t c = c0; c < std::min(part.columns, c0 + kTile); ++c)
          copy(r, c, strides.column);
}

template <class To, class From>
void read_as(const TensorSlice& slice, ElementRange range, const std::byte* stored,
             kernels::View out) {
  const StoredStrides strides(slice);
  for (Rectangle part : rectangles_of(slice, range, out)) {
    To* to = static_cast<To*>(out.data) + part.memory;
    const int64_t all = part.rows;
    part.rows = std::clamp<int64_t>(strides.whole_rows - slice.first_row - part.row, 0, all);
    for (int64_t r = part.rows; r < all; ++r)
      std::fill_n(to + r * part.stride, part.columns, To(0));
    if (part.rows == 0) continue;
    const int64_t first = strides.at(slice, part.row, part.column);
    read_rectangle<To, From>(part, strides, stored + first * int64_t{sizeof(From)}, to);
  }
}

template <class To>
void read_to(const TensorSlice& slice, ElementRange range, const std::byte* stored,
             StorageType type, kernels::View out) {
  switch (type) {
    case StorageType::f64:
      return read_as<To, double>(slice, range, stored, out);
    case StorageType::f32:
      return read_as<To, float>(slice, range, stored, out);
    case StorageType::f16:
      return read_as<To, Half>(slice, range, stored, out);
    case StorageType::bf16:
      return read_as<To, bfloat16>(slice, range, stored, out);
    default:
      fail_expectation("a floating-point tensor");
  }
}

// Columns that are gathered at once from a transposed slice, and bytes of a run.
constexpr int64_t kGathered = 16;
constexpr int64_t kRunElements = int64_t{1} << 16;

template <class To, class From>
void write_rectangle(const Rectangle& part, const StoredStrides& strides, int64_t first,
                     const From* from, const StoreBytes& store) {
  std::vector<To> run;
  const auto send = [&](int64_t element, const To* data, int64_t count) {
    const auto bytes = std::as_bytes(std::span(data, static_cast<size_t>(count)));
    store(element * int64_t{sizeof(To)}, bytes);
  };
  if (strides.column == 1) {
    // Rows that touch each other in the file go out together.
    const int64_t together =
        strides.row == part.columns ? std::max<int64_t>(1, kRunElements / part.columns) : 1;
    for (int64_t r0 = 0; r0 < part.rows; r0 += together) {
      const int64_t rows = std::min(together, part.rows - r0);
      run.resize(static_cast<size_t>(rows * part.columns));
      To* to = run.data();
      for (int64_t r = r0; r < r0 + rows; ++r)
        for (int64_t c = 0; c < part.columns; ++c) *to++ = convert<To>(from[r * part.stride + c]);
      send(first + r0 * strides.row, run.data(), rows * part.columns);
    }
    return;
  }
  for (int64_t c0 = 0; c0 < part.columns; c0 += kGathered) {
    const int64_t columns = std::min(kGathered, part.columns - c0);
    run.resize(static_cast<size_t>(columns * part.rows));
    for (int64_t r = 0; r < part.rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        run[static_cast<size_t>(c * part.rows + r)] = convert<To>(from[r * part.stride + c0 + c]);
    for (int64_t c = 0; c < columns; ++c)
      send(first + (c0 + c) * strides.column, run.data() + c * part.rows, part.rows);
  }
}

template <class To, class From>
void write_as(const TensorSlice& slice, ElementRange range, kernels::ConstView data,
              const StoreBytes& store) {
  const StoredStrides strides(slice);
  for (Rectangle part : rectangles_of(slice, range, data)) {
    part.rows = std::clamp<int64_t>(strides.whole_rows - slice.first_row - part.row, 0, part.rows);
    if (part.rows == 0) continue;
    write_rectangle<To, From>(part, strides, strides.at(slice, part.row, part.column),
                              static_cast<const From*>(data.data) + part.memory, store);
  }
}

template <class From>
void write_from(const TensorSlice& slice, ElementRange range, kernels::ConstView data,
                StorageType type, const StoreBytes& store) {
  switch (type) {
    case StorageType::f64:
      return write_as<double, From>(slice, range, data, store);
    case StorageType::f32:
      return write_as<float, From>(slice, range, data, store);
    case StorageType::bf16:
      return write_as<bfloat16, From>(slice, range, data, store);
    default:
      fail_expectation("f64, f32 or bf16");
  }
}

}  // namespace

void read_slice(const TensorSlice& slice, ElementRange range, const std::byte* stored,
                StorageType type, kernels::View out) {
  check(slice, range, out);
  switch (out.type) {
    case kernels::DType::f64:
      return read_to<double>(slice, range, stored, type, out);
    case kernels::DType::f32:
      return read_to<float>(slice, range, stored, type, out);
    case kernels::DType::bf16:
      return read_to<bfloat16>(slice, range, stored, type, out);
    case kernels::DType::i32:
      break;
  }
  fail_expectation("memory of floating-point numbers");
}

void write_slice(const TensorSlice& slice, ElementRange range, kernels::ConstView data,
                 StorageType type, const StoreBytes& store) {
  check(slice, range, data);
  switch (data.type) {
    case kernels::DType::f64:
      return write_from<double>(slice, range, data, type, store);
    case kernels::DType::f32:
      return write_from<float>(slice, range, data, type, store);
    case kernels::DType::bf16:
      return write_from<bfloat16>(slice, range, data, type, store);
    case kernels::DType::i32:
      break;
  }
  fail_expectation("memory of floating-point numbers");
}

}  // namespace engine
