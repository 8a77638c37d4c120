// Table look-up with one shard of the table, and its gradient.
#pragma once
#include "kernels/view.h"

namespace kernels {

// dst = table[id - first], or 0 where the id belongs to another shard; with `add` dst += the same.
template <class T>
struct EmbeddingForward {
  Rows<const T> table;  // [count, cols], rows first … first + count - 1 of the whole table
  Rows<const int32_t> ids;
  Rows<T> dst;
  int64_t first, count, cols;
  bool add;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    using A = Arithmetic<T>;
    const int64_t local = ids.data[row] - first;
    const bool own = local >= 0 && local < count;
    const T* x = table[own ? local : 0];
    T* y = dst[row];
    if (own && add)
      each(group, cols, [&](int64_t c) { y[c] = T(A(y[c]) + A(x[c])); });
    else if (own)
      each(group, cols, [&](int64_t c) { y[c] = x[c]; });
    else if (!add)
      each(group, cols, [&](int64_t c) { y[c] = T(A(0)); });
  }
};

// grad_table[id - first] += grad_dst for every row in order. A group owns a block of columns, so
// rows with one id need no atomic addition and the sum has a fixed order.
template <class T>
struct EmbeddingBackward {
  Rows<const T> grad_dst;
  Rows<const int32_t> ids;
  Rows<Arithmetic<T>> grad_table;
  int64_t rows, first, count, cols, block;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t index) const {
    const int64_t start = index * block;
    const int64_t width = smaller(block, cols - start);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t local = ids.data[row] - first;
      if (local < 0 || local >= count) continue;
      const T* dy = grad_dst[row] + start;
      Arithmetic<T>* dt = grad_table[local] + start;
      each(group, width, [&](int64_t c) { dt[c] += Arithmetic<T>(dy[c]); });
    }
  }
};

}  // namespace kernels
