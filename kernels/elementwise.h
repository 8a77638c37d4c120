// Element-wise kernels: fill, copies between types, sums, dropout, random values.
#pragma once
#include "kernels/random.h"
#include "kernels/view.h"

namespace kernels {

// The part of one row that a group works on.
struct Tile {
  int64_t row, first, count;
};

// Cuts a matrix into pieces of rows, so that one long row is shared out as well as many short ones.
struct Tiling {
  static constexpr int64_t kWidth = 4096;
  int64_t rows = 0, cols = 0;

  HOST_DEVICE int64_t per_row() const { return (cols + kWidth - 1) / kWidth; }
  HOST_DEVICE int64_t items() const { return rows * per_row(); }
  HOST_DEVICE Tile operator[](int64_t item) const {
    const int64_t first = item % per_row() * kWidth;
    return {item / per_row(), first, smaller(kWidth, cols - first)};
  }
};

template <class T>
struct Fill {
  Rows<T> dst;
  double value;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    T* y = dst[tile.row] + tile.first;
    const T filler = T(Arithmetic<T>(value));
    each(group, tile.count, [&](int64_t c) { y[c] = filler; });
  }
};

// dst = factor · src, in the arithmetic of the source, rounded once.
template <class From, class To>
struct Copy {
  Rows<const From> src;
  Rows<To> dst;
  double factor;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    using A = Arithmetic<From>;
    const Tile tile = tiling[item];
    const From* x = src[tile.row] + tile.first;
    To* y = dst[tile.row] + tile.first;
    const A f = A(factor);
    each(group, tile.count, [&](int64_t c) { y[c] = To(Arithmetic<To>(f * A(x[c]))); });
  }
};

// dst += factor · src.
template <class From, class To>
struct Accumulate {
  Rows<const From> src;
  Rows<To> dst;
  double factor;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    using A = Arithmetic<To>;
    const Tile tile = tiling[item];
    const From* x = src[tile.row] + tile.first;
    To* y = dst[tile.row] + tile.first;
    const A f = A(factor);
    each(group, tile.count, [&](int64_t c) { y[c] = To(A(y[c]) + f * A(Arithmetic<From>(x[c]))); });
  }
};

// dst = residual + dropout(src + bias); bias and residual may be absent.
template <class T>
struct BiasDropoutAdd {
  using A = Arithmetic<T>;
  Rows<const T> src, bias, residual;
  Rows<T> dst;
  Dropout dropout;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const T* x = src[tile.row] + tile.first;
    T* y = dst[tile.row] + tile.first;
    if (bias) {
      const T* b = bias[0] + tile.first;
      add_residual(group, tile, y, [=](int64_t c) { return A(x[c]) + A(b[c]); });
    } else {
      add_residual(group, tile, y, [=](int64_t c) { return A(x[c]); });
    }
  }

 private:
  template <class G, class F>
  HOST_DEVICE void add_residual(const G& group, const Tile& tile, T* y, F branch) const {
    if (residual) {
      const T* r = residual[tile.row] + tile.first;
      drop(group, tile, y, branch, [=](int64_t c) { return A(r[c]); });
    } else {
      drop(group, tile, y, branch, [](int64_t) { return A(0); });
    }
  }
  template <class G, class F, class R>
  HOST_DEVICE void drop(const G& group, const Tile& tile, T* y, F branch, R rest) const {
    if (dropout.active()) {
      const DropoutRow row = dropout_row(dropout, dropout.rows(tile.row));
      const int64_t first = tile.first;
      each(group, tile.count,
           [=](int64_t c) { y[c] = T(rest(c) + A(row.factor(first + c)) * branch(c)); });
    } else {
      each(group, tile.count, [=](int64_t c) { y[c] = T(rest(c) + branch(c)); });
    }
  }
};

// Normal values of a given deviation, by global row and column.
template <class T>
struct FillNormal {
  Rows<T> dst;
  double deviation;
  Stream stream;
  RowMap rows;
  int64_t first_column;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    using A = Arithmetic<T>;
    const Tile tile = tiling[item];
    T* y = dst[tile.row] + tile.first;
    const RowStream numbers = row_stream(stream, rows(tile.row));
    const uint32_t first = static_cast<uint32_t>(first_column + tile.first);
    each(group, tile.count, [&](int64_t c) {
      y[c] = T(A(deviation) * A(numbers.normal(first + static_cast<uint32_t>(c))));
    });
  }
};

// dst[(sequence · heads + head) · tokens + token] = the head's columns of src[row of the token], or
// with `merge` back. One destination row [head_dim] a group.
template <class T>
struct PermuteHeads {
  Rows<const T> src;
  Rows<T> dst;
  int64_t sequences, tokens, heads, head_dim;
  bool token_major, merge;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const int64_t token = item % tokens;
    const int64_t head = item / tokens % heads;
    const int64_t sequence = item / tokens / heads;
    const int64_t row = token_major ? token * sequences + sequence : sequence * tokens + token;
    const T* x = merge ? src[item] : src[row] + head * head_dim;
    T* y = merge ? dst[row] + head * head_dim : dst[item];
    each(group, head_dim, [&](int64_t c) { y[c] = x[c]; });
  }
};

}  // namespace kernels
