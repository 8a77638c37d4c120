// Causal softmax over a full matrix of attention scores: the unfused path of attention.
#pragma once
#include "kernels/random.h"
#include "kernels/view.h"

namespace kernels {

// How many keys the query in row `row` of [sequences · heads · queries, keys] may see.
struct Visible {
  int64_t queries, keys;
  bool causal;

  HOST_DEVICE int64_t operator()(int64_t row) const {
    if (!causal) return keys;
    return smaller(keys, larger(int64_t{0}, row % queries + keys - queries + 1));
  }
};

// dst = softmax(scale · src) over the visible keys, 0 elsewhere. `dst` may be `src`.
template <class T>
struct SoftmaxForward {
  using A = Arithmetic<T>;
  Rows<const T> src;
  Rows<T> dst;
  double scale;
  Visible visible;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* x = src[row];
    T* y = dst[row];
    const int64_t n = visible(row);
    const A factor = A(scale);
    const A top = max_each<A>(group, n, [&](int64_t c) { return factor * A(x[c]); });
    // f32 and f64 keep the powers where the result goes; bf16 would round them twice.
    if constexpr (sizeof(T) == sizeof(A)) {
      const A total = sum_each<A, 1>(group, n, [&](int64_t c) {
        const A power = exponential(factor * A(x[c]) - top);
        y[c] = T(power);
        return power;
      });
      const A inverse = A(1) / total;
      each(group, n, [&](int64_t c) { y[c] = T(A(y[c]) * inverse); });
    } else {
      const A total =
          sum_each<A, 1>(group, n, [&](int64_t c) { return exponential(factor * A(x[c]) - top); });
      const A inverse = A(1) / total;
      each(group, n, [&](int64_t c) { y[c] = T(exponential(factor * A(x[c]) - top) * inverse); });
    }
    each(group, visible.keys - n, [&](int64_t c) { y[n + c] = T(A(0)); });
  }
};

// grad_src = scale · probs · (g - Σ g · probs) with g = dropout(grad_dst). `grad_src` may be
// grad_dst.
template <class T>
struct SoftmaxBackward {
  using A = Arithmetic<T>;
  Rows<const T> grad_dst, probs;
  Rows<T> grad_src;
  double scale;
  Visible visible;
  Dropout dropout;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* dy = grad_dst[row];
    if (dropout.active()) {
      const DropoutRow drop = dropout_row(dropout, dropout.rows(row));
      finish(group, row, [=](int64_t c) { return A(dy[c]) * A(drop.factor(c)); });
    } else {
      finish(group, row, [=](int64_t c) { return A(dy[c]); });
    }
  }

 private:
  template <class G, class F>
  HOST_DEVICE void finish(const G& group, int64_t row, F gradient) const {
    const T* p = probs[row];
    T* dx = grad_src[row];
    const int64_t n = visible(row);
    const A along = sum_each<A>(group, n, [&](int64_t c) { return gradient(c) * A(p[c]); });
    const A factor = A(scale);
    each(group, n, [&](int64_t c) { dx[c] = T(factor * A(p[c]) * (gradient(c) - along)); });
    each(group, visible.keys - n, [&](int64_t c) { dx[n + c] = T(A(0)); });
  }
};

}  // namespace kernels
