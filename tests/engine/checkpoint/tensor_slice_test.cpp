// Slices of stored tensors against a plain copy of single elements.
#include "engine/checkpoint/tensor_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/scalar.h"

namespace engine {
namespace {

using kernels::bfloat16;
using kernels::DType;
using kernels::View;

// The stored tensor holds its own element numbers.
std::vector<float> numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return values;
}
int64_t stored_elements(const TensorSlice& slice) {
  int64_t count = 1;
  for (const int64_t size : slice.shape) count *= size;
  return count;
}
// The number at a place of the slice; 0 for padding.
float expected_at(const TensorSlice& slice, int64_t row, int64_t column) {
  const int64_t r = slice.first_row + row, c = slice.first_column + column;
  if (slice.shape.size() == 1) return static_cast<float>(c + 1);
  const int64_t across = slice.shape[1];
  if (slice.transposed) return r < across ? static_cast<float>(c * across + r + 1) : 0;
  return r < slice.shape[0] ? static_cast<float>(r * across + c + 1) : 0;
}

const std::vector<TensorSlice>& slices() {
  static const std::vector<TensorSlice> kSlices = {
      {"whole", {7, 5}, false, 0, 0, 7, 5},
      {"rows", {7, 5}, false, 2, 0, 3, 5},
      {"columns", {7, 5}, false, 0, 1, 7, 3},
      {"inner", {7, 5}, false, 3, 2, 2, 2},
      {"padded", {7, 5}, false, 6, 0, 4, 5},
      {"only padding", {7, 5}, false, 8, 0, 2, 5},
      {"transposed", {5, 7}, true, 0, 0, 7, 5},
      {"transposed rows", {5, 7}, true, 2, 0, 3, 5},
      {"transposed columns", {5, 7}, true, 0, 1, 7, 3},
      {"transposed padded", {5, 7}, true, 5, 0, 4, 5},
      {"large transposed", {70, 130}, true, 33, 1, 97, 69},
      {"vector", {9}, false, 0, 0, 1, 9},
      {"part of a vector", {9}, false, 0, 4, 1, 3},
      {"a row", {1, 6}, false, 0, 2, 1, 4},
      {"a column", {6, 1}, false, 1, 0, 4, 1},
  };
  return kSlices;
}

TEST(TensorSliceTest, ReadsEveryRangeOfEverySlice) {
  for (const TensorSlice& slice : slices()) {
    const auto stored = numbers(stored_elements(slice));
    const auto* bytes = reinterpret_cast<const std::byte*>(stored.data());
    const int64_t step = slice.elements() > 100 ? 997 : 1;
    for (int64_t first = 0; first < slice.elements(); first += step)
      for (int64_t count = 0; first + count <= slice.elements(); count += step) {
        std::vector<float> out(static_cast<size_t>(count), -1);
        read_slice(slice, {first, count}, bytes, StorageType::f32,
                   View(out.data(), DType::f32, 1, count));
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(out[static_cast<size_t>(i)],
                    expected_at(slice, (first + i) / slice.columns, (first + i) % slice.columns))
              << slice.name << " " << first << " + " << i;
      }
  }
}

TEST(TensorSliceTest, WritesEveryRangeOfEverySlice) {
  for (const TensorSlice& slice : slices()) {
    const int64_t step = slice.elements() > 100 ? 997 : 1;
    for (int64_t first = 0; first < slice.elements(); first += step)
      for (int64_t count = 0; first + count <= slice.elements(); count += step) {
        std::vector<float> data(static_cast<size_t>(count));
        std::vector<float> expected(static_cast<size_t>(stored_elements(slice)), -1);
        for (int64_t i = 0; i < count; ++i) {
          const float value =
              expected_at(slice, (first + i) / slice.columns, (first + i) % slice.columns);
          data[static_cast<size_t>(i)] = value;
          if (value > 0) expected[static_cast<size_t>(value) - 1] = value;
        }
        std::vector<float> stored(expected.size(), -1);
        write_slice(slice, {first, count}, View(data.data(), DType::f32, 1, count),
                    StorageType::f32, [&](int64_t offset, std::span<const std::byte> bytes) {
                      ASSERT_LE(offset + static_cast<int64_t>(bytes.size()),
                                static_cast<int64_t>(stored.size() * 4));
                      std::memcpy(reinterpret_cast<std::byte*>(stored.data()) + offset,
                                  bytes.data(), bytes.size());
                    });
        ASSERT_EQ(stored, expected) << slice.name << " " << first << " + " << count;
      }
  }
}

TEST(TensorSliceTest, WholeSlicesMayHaveGapsInMemory) {
  for (const TensorSlice& slice : slices()) {
    const auto stored = numbers(stored_elements(slice));
    const int64_t stride = slice.columns + 3;
    std::vector<double> out(static_cast<size_t>(slice.rows * stride), -1);
    const View view(out.data(), DType::f64, slice.rows, slice.columns, stride);
    read_slice(slice, {0, slice.elements()}, reinterpret_cast<const std::byte*>(stored.data()),
               StorageType::f32, view);
    for (int64_t r = 0; r < slice.rows; ++r)
      for (int64_t c = 0; c < stride; ++c)
        ASSERT_EQ(out[static_cast<size_t>(r * stride + c)],
                  c < slice.columns ? double{expected_at(slice, r, c)} : -1)
            << slice.name;
    std::vector<double> again(stored.size(), 0);
    write_slice(slice, {0, slice.elements()}, view, StorageType::f64,
                [&](int64_t offset, std::span<const std::byte> bytes) {
                  std::memcpy(reinterpret_cast<std::byte*>(again.data()) + offset, bytes.data(),
                              bytes.size());
                });
    for (size_t i = 0; i < again.size(); ++i)
      EXPECT_TRUE(again[i] == 0 || again[i] == stored[i]) << slice.name;
  }
}

TEST(TensorSliceTest, WrongSlicesAreOurMistake) {
  const auto stored = numbers(35);
  std::vector<float> out(35);
  const auto read = [&](const TensorSlice& slice, ElementRange range, const View& view) {
    read_slice(slice, range, reinterpret_cast<const std::byte*>(stored.data()), StorageType::f32,
               view);
  };
  const View all(out.data(), DType::f32, 7, 5);
  EXPECT_THROW(read({"", {7, 5}, false, 0, 1, 7, 5}, {0, 35}, all), std::logic_error);
  EXPECT_THROW(read({"", {7, 5}, false, 0, 0, 7, 5}, {1, 35}, all), std::logic_error);
  EXPECT_THROW(read({"", {7, 5}, false, 0, 0, 7, 5}, {0, 34}, all), std::logic_error);
  EXPECT_THROW(read({"", {7, 5, 1}, false, 0, 0, 7, 5}, {0, 35}, all), std::logic_error);
  EXPECT_THROW(read({"", {35}, false, 1, 0, 1, 34}, {0, 34}, all), std::logic_error);
}

// Half precision: bits and the value they stand for (IEEE 754-2008, binary16).
TEST(TensorSliceTest, ReadsHalfPrecision) {
  const std::pair<uint16_t, float> cases[] = {
      {0x0000, 0.0f},        {0x3c00, 1.0f},     {0xc000, -2.0f},           {0x7bff, 65504.0f},
      {0x0400, 0x1p-14f},    {0x0001, 0x1p-24f}, {0x03ff, 1023 * 0x1p-24f}, {0x8001, -0x1p-24f},
      {0x3555, 0x1.554p-2f}, {0x7c00, INFINITY}, {0xfc00, -INFINITY},
  };
  for (const auto& [bits, value] : cases) {
    float out = 0;
    read_slice({"", {1}, false, 0, 0, 1, 1}, {0, 1}, reinterpret_cast<const std::byte*>(&bits),
               StorageType::f16, View(&out, DType::f32, 1, 1));
    EXPECT_EQ(out, value);
  }
  const uint16_t minus_zero = 0x8000, nan = 0x7e01;
  float out = 1;
  const auto read = [&](const uint16_t& bits) {
    read_slice({"", {1}, false, 0, 0, 1, 1}, {0, 1}, reinterpret_cast<const std::byte*>(&bits),
               StorageType::f16, View(&out, DType::f32, 1, 1));
    return out;
  };
  EXPECT_TRUE(std::signbit(read(minus_zero)));
  EXPECT_TRUE(std::isnan(read(nan)));
}

TEST(TensorSliceTest, ConvertsBetweenTypes) {
  const float value = 1.00390625f;  // halfway between two bf16, ties to even
  const TensorSlice one{"", {1}, false, 0, 0, 1, 1};
  bfloat16 rounded;
  read_slice(one, {0, 1}, reinterpret_cast<const std::byte*>(&value), StorageType::f32,
             View(&rounded, DType::bf16, 1, 1));
  EXPECT_EQ(static_cast<float>(rounded), 1.0f);
  const bfloat16 third(1.0f / 3);
  double wide = 0;
  read_slice(one, {0, 1}, reinterpret_cast<const std::byte*>(&third), StorageType::bf16,
             View(&wide, DType::f64, 1, 1));
  EXPECT_EQ(wide, static_cast<float>(third));
  const double precise = 1.0 / 3;
  float single = 0;
  read_slice(one, {0, 1}, reinterpret_cast<const std::byte*>(&precise), StorageType::f64,
             View(&single, DType::f32, 1, 1));
  EXPECT_EQ(single, 1.0f / 3);
  uint16_t stored = 0;
  write_slice(one, {0, 1}, View(&single, DType::f32, 1, 1), StorageType::bf16,
              [&](int64_t, std::span<const std::byte> bytes) {
                ASSERT_EQ(bytes.size(), 2u);
                std::memcpy(&stored, bytes.data(), 2);
              });
  EXPECT_EQ(stored, third.bits);
}

}  // namespace
}  // namespace engine
