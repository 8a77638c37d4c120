// Attention over a KV cache in pages: each token reads the keys and values of its sequence through
// a block table (Kwon et al. 2023). One token and head a group, page by page with a running
// maximum.
#pragma once
#include "kernels/attention.h"

namespace kernels {

// A cache is a matrix [pages · page_tokens, kv_heads · head_dim]; token t of a sequence stands in
// row table[t / page_tokens] · page_tokens + t % page_tokens.
struct PagedShape {
  static constexpr int64_t kMaxPageTokens = 64;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads
  int64_t head_dim = 0;
  int64_t page_tokens = 0;
  double scale = 1;
};

template <class T>
struct PagedAttention {
  using A = Arithmetic<T>;
  PagedShape shape;
  Rows<const T> query;            // [tokens, heads · head_dim]
  Rows<const T> key, value;       // the cache
  Rows<const int32_t> tables;     // [sequences, pages of the longest]
  Rows<const int32_t> sequences;  // [1, tokens]: row of `tables`
  Rows<const int32_t> visible;    // [1, tokens]: keys the token sees, itself included
  Rows<T> out;                    // [tokens, heads · head_dim]
  int64_t pages;                  // columns of `tables`

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const int64_t token = row / shape.heads, head = row % shape.heads, dim = shape.head_dim;
    const int64_t kv_column = head / (shape.heads / shape.kv_heads) * dim;
    const int32_t* table = tables[sequences.data[token]];
    const T* q = query[token] + head * dim;
    // Thread r of the group keeps the columns r, r + size, … of the sum, in this order.
    A sums[AttentionForward<T>::kMaxHeadDim / G::kLeastSize];
    A scores[PagedShape::kMaxPageTokens];
    const int64_t own = (dim - group.rank() + group.size() - 1) / group.size();
    for (int64_t i = 0; i < own; ++i) sums[i] = 0;
    A top = -std::numeric_limits<A>::infinity();
    A total = 0;
    for (int64_t first = 0; first < visible.data[token]; first += shape.page_tokens) {
      const int64_t cache_row = int64_t{table[first / shape.page_tokens]} * shape.page_tokens;
      const int64_t count = smaller(shape.page_tokens, visible.data[token] - first);
      A new_top = top;
      for (int64_t j = 0; j < count; ++j) {
        scores[j] = A(shape.scale) * dot(group, q, key[cache_row + j] + kv_column, dim);
        new_top = larger(new_top, scores[j]);
      }
      const A rescale = exponential(top - new_top);
      top = new_top;
      total *= rescale;
      for (int64_t i = 0; i < own; ++i) sums[i] *= rescale;
      for (int64_t j = 0; j < count; ++j) {
        const A weight = exponential(scores[j] - top);
        total += weight;
        const T* v = value[cache_row + j] + kv_column + group.rank();
        for (int64_t i = 0; i < own; ++i) sums[i] += weight * A(v[i * group.size()]);
      }
    }
    T* y = out[token] + head * dim + group.rank();
    for (int64_t i = 0; i < own; ++i) y[i * group.size()] = T(total > 0 ? sums[i] / total : A(0));
  }
};

// dst[rows[i]] = src[i]: new keys and values into their places of a cache. Rows are distinct.
template <class T>
struct ScatterRows {
  Rows<const T> src;
  Rows<const int32_t> rows;  // [1, rows of src]
  Rows<T> dst;
  int64_t cols;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* x = src[row];
    T* y = dst[rows.data[row]];
    each(group, cols, [&](int64_t c) { y[c] = x[c]; });
  }
};

}  // namespace kernels
