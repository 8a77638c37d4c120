// Sums over columns, rows and whole matrices, each in a fixed order.
#pragma once
#include "kernels/view.h"

namespace kernels {

// dst += Σ_rows src: the gradient of a bias. A group owns a block of columns.
template <class T>
struct ColumnSum {
  using A = Arithmetic<T>;
  Rows<const T> src;
  Rows<A> dst;  // [1, cols]
  int64_t rows, cols, block;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t index) const {
    const int64_t first = index * block;
    A* y = dst.data + first;
    for (int64_t row = 0; row < rows; ++row) {
      const T* x = src[row] + first;
      each(group, smaller(block, cols - first), [&](int64_t c) { y[c] += A(x[c]); });
    }
  }
};

// partials[i] += the sum of squares of the i-th of `parts` equal pieces of a contiguous buffer.
template <class T>
struct SumOfSquares {
  const T* src;
  double* partials;
  int64_t count, parts;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t part) const {
    const int64_t first = count * part / parts;
    const int64_t last = count * (part + 1) / parts;
    const double total = sum_each<double>(group, last - first, [&](int64_t i) {
      const double x = static_cast<double>(Arithmetic<T>(src[first + i]));
      return x * x;
    });
    if (group.rank() == 0) partials[part] += total;
  }
};

// dst = Σ src of one row, in double.
template <class A>
struct Total {
  const A* src;
  double* dst;
  int64_t count;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t) const {
    const double total =
        sum_each<double>(group, count, [&](int64_t i) { return static_cast<double>(src[i]); });
    if (group.rank() == 0) *dst = total;
  }
};

}  // namespace kernels
