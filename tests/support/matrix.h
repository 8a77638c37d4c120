// Matrix: an operand of a kernel under test, with sentinels around every row.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory_resource>
#include <vector>

#include "kernels/view.h"
#include "tests/support/tolerance.h"

namespace testing_support {

using kernels::DType;

// Values of a matrix in double, row-major: what oracles take and return.
struct Values {
  int64_t rows = 0, cols = 0;
  std::vector<double> data;

  Values() = default;
  Values(int64_t rows_, int64_t cols_)
      : rows(rows_), cols(cols_), data(static_cast<size_t>(rows_ * cols_)) {}
  double& operator()(int64_t r, int64_t c) { return data[static_cast<size_t>(r * cols + c)]; }
  double operator()(int64_t r, int64_t c) const { return data[static_cast<size_t>(r * cols + c)]; }
};

// Repeatable values of unit size, not symmetric, different for each `salt`.
inline double unit_value(int64_t index, int salt) {
  const double x = std::sin(static_cast<double>(index + 1) * (12.9898 + salt)) * 43758.5453;
  return 2 * (x - std::floor(x)) - 1;
}

class Matrix {
 public:
  // Filled with NaN (i32: a large number), so that what a kernel forgets to write is seen.
  Matrix(DType type, int64_t rows, int64_t cols) : type_(type), rows_(rows), cols_(cols) {
    stride_ = cols + kGuard;
    const auto count = static_cast<size_t>(rows * stride_ + kGuard);
    bytes_.assign(count * static_cast<size_t>(kernels::bytes_of(type)), kSentinel);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) set(r, c, type == DType::i32 ? 1e9 : std::nan(""));
  }
  Matrix(DType type, const Values& values) : Matrix(type, values.rows, values.cols) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) set(r, c, values(r, c));
  }
  static Matrix random(DType type, int64_t rows, int64_t cols, int salt, double size = 1) {
    Values values(rows, cols);
    for (size_t i = 0; i < values.data.size(); ++i)
      values.data[i] = size * unit_value(static_cast<int64_t>(i), salt);
    return {type, values};
  }
  static Matrix filled(DType type, int64_t rows, int64_t cols, double value) {
    Values values(rows, cols);
    for (double& x : values.data) x = value;
    return {type, values};
  }
  Matrix(const Matrix&) = default;
  Matrix& operator=(const Matrix&) = default;
  ~Matrix() {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = cols_; c < stride_; ++c) expect_sentinel(r, c);
  }

  kernels::View view() { return {at(0, 0), type_, rows_, cols_, stride_}; }
  operator kernels::View() { return view(); }       // NOLINT
  operator kernels::ConstView() { return view(); }  // NOLINT
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  DType type() const { return type_; }

  double operator()(int64_t r, int64_t c) const {
    switch (type_) {
      case DType::f32:
        return get<float>(r, c);
      case DType::bf16:
        return float(get<kernels::bfloat16>(r, c));
      case DType::f64:
        return get<double>(r, c);
      case DType::i32:
        return get<int32_t>(r, c);
    }
    return 0;
  }
  void set(int64_t r, int64_t c, double value) {
    switch (type_) {
      case DType::f32:
        return put(r, c, static_cast<float>(value));
      case DType::bf16:
        return put(r, c, kernels::bfloat16(static_cast<float>(value)));
      case DType::f64:
        return put(r, c, value);
      case DType::i32:
        return put(r, c, static_cast<int32_t>(value));
    }
  }
  Values values() const {
    Values result(rows_, cols_);
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < cols_; ++c) result(r, c) = (*this)(r, c);
    return result;
  }

 private:
  // Rows of whole 16-byte pieces stay aligned: kernels that want them so are then the ones tested.
  static constexpr int64_t kGuard = 8;
  static constexpr unsigned char kSentinel = 0xa5;

  void expect_sentinel(int64_t r, int64_t c) {
    const auto size = kernels::bytes_of(type_);
    for (int64_t i = 0; i < size; ++i)
      if (at(r, c)[i] != kSentinel) {
        ADD_FAILURE() << "written behind row " << r << ", column " << c << " of " << cols_;
        return;
      }
  }
  unsigned char* at(int64_t r, int64_t c) {
    return bytes_.data() + (r * stride_ + c) * kernels::bytes_of(type_);
  }
  const unsigned char* at(int64_t r, int64_t c) const {
    return bytes_.data() + (r * stride_ + c) * kernels::bytes_of(type_);
  }
  template <class T>
  T get(int64_t r, int64_t c) const {
    T value;
    std::memcpy(&value, at(r, c), sizeof value);
    return value;
  }
  template <class T>
  void put(int64_t r, int64_t c, T value) {
    std::memcpy(at(r, c), &value, sizeof value);
  }
  DType type_;
  int64_t rows_, cols_, stride_ = 0;
  std::pmr::vector<unsigned char> bytes_;  // of the default resource, which a GPU may reach
};

// Every element within the tolerance of `type`; `factor` loosens it where a comment says why.
inline void expect_close(const Values& got, const Values& want, DType type, const char* what,
                         double factor = 1) {
  ASSERT_EQ(got.rows, want.rows) << what;
  ASSERT_EQ(got.cols, want.cols) << what;
  double peak = 0;
  for (const double x : want.data)
    if (std::isfinite(x)) peak = std::max(peak, std::abs(x));
  const double tolerance = factor * tolerance_of(type).relative;
  for (int64_t r = 0; r < got.rows; ++r)
    for (int64_t c = 0; c < got.cols; ++c) {
      const double g = got(r, c), w = want(r, c);
      const bool same = g == w || std::abs(g - w) <= tolerance * (std::abs(w) + peak);
      ASSERT_TRUE(same) << what << " at row " << r << ", column " << c << ": got " << g << ", want "
                        << w << ", of " << got.rows << " x " << got.cols;
    }
}
inline void expect_close(const Matrix& got, const Values& want, const char* what,
                         double factor = 1) {
  expect_close(got.values(), want, got.type(), what, factor);
}
inline void expect_equal(const Matrix& got, const Matrix& want, const char* what) {
  ASSERT_EQ(got.rows(), want.rows()) << what;
  ASSERT_EQ(got.cols(), want.cols()) << what;
  for (int64_t r = 0; r < got.rows(); ++r)
    for (int64_t c = 0; c < got.cols(); ++c)
      ASSERT_EQ(got(r, c), want(r, c)) << what << " at row " << r << ", column " << c;
}

// Checks a gradient by directional derivatives: `loss` is a function of `inputs`, `gradients` what
// a backward pass says of each. Inputs and gradients are f64.
inline void expect_gradient(const std::function<double()>& loss, std::vector<Matrix*> inputs,
                            const std::vector<Matrix*>& gradients, const char* what) {
  for (size_t n = 0; n < inputs.size(); ++n) {
    Matrix& x = *inputs[n];
    const Values start = x.values();
    constexpr double kStep = 1e-5;
    double predicted = 0, size = 0;
    const auto direction = [&](int64_t r, int64_t c) { return unit_value(r * x.cols() + c, 77); };
    const auto loss_at = [&](double step) {
      for (int64_t r = 0; r < x.rows(); ++r)
        for (int64_t c = 0; c < x.cols(); ++c) x.set(r, c, start(r, c) + step * direction(r, c));
      return loss();
    };
    for (int64_t r = 0; r < x.rows(); ++r)
      for (int64_t c = 0; c < x.cols(); ++c) {
        predicted += (*gradients[n])(r, c) * direction(r, c);
        size += std::abs((*gradients[n])(r, c));
      }
    // Fourth-order central difference.
    const double measured =
        (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
        (12 * kStep);
    loss_at(0);
    EXPECT_NEAR(measured, predicted, kGradientTolerance * std::max(1.0, size))
        << what << ", input " << n;
    EXPECT_GT(size, 0) << what << ", input " << n << ": a gradient of zero proves nothing";
  }
}

// Σ weights · values: turns a matrix into a loss whose gradient is `weights`.
inline double weighted_sum(const Matrix& values, const Matrix& weights) {
  double total = 0;
  for (int64_t r = 0; r < values.rows(); ++r)
    for (int64_t c = 0; c < values.cols(); ++c) total += values(r, c) * weights(r, c);
  return total;
}

}  // namespace testing_support
