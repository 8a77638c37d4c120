// Cross-entropy over one shard of the vocabulary, in pieces between which a communicator reduces:
// sums relative to the shard's own maximum, losses, gradients.
#pragma once
#include "kernels/view.h"

namespace kernels {

// top = the largest logit of this shard; sums = Σ_c exp(logit - top); chosen = logit of the target,
// 0 when another shard has it. The second walk through a row finds it in the cache.
template <class T>
struct CrossEntropySums {
  using A = Arithmetic<T>;
  Rows<const T> logits;
  Rows<const int32_t> targets;  // [1, rows], global ids; negative = ignored
  Rows<A> top, sums, chosen;    // [1, rows]
  int64_t first, cols;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* x = logits[row];
    const A shift = max_each<A>(group, cols, [&](int64_t c) { return A(x[c]); });
    const A total =
        sum_each<A, 1>(group, cols, [&](int64_t c) { return exponential(A(x[c]) - shift); });
    if (group.rank() == 0) finish(row, shift, total);
  }
  HOST_DEVICE void finish(int64_t row, A shift, A total) const {
    const int64_t local = targets.data[row] - first;
    const bool own = targets.data[row] >= 0 && local >= 0 && local < cols;
    top.data[row] = shift;
    sums.data[row] = total;
    chosen.data[row] = own ? A(logits[row][local]) : A(0);
  }
};

// sums · e^(from - to). `rows` a group.
template <class A>
struct CrossEntropyRescale {
  Rows<A> sums;
  Rows<const A> from, to;
  int64_t rows;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t) const {
    each(group, rows, [&](int64_t i) { sums.data[i] *= exponential(from.data[i] - to.data[i]); });
  }
};

// loss = ln(sums) + top - chosen, all reduced over the shards; 0 for an ignored target. `rows` a
// group.
template <class A>
struct CrossEntropyLoss {
  Rows<const A> top, sums, chosen;
  Rows<const int32_t> targets;
  Rows<A> losses;
  int64_t rows;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t) const {
    each(group, rows, [&](int64_t i) {
      const A loss = logarithm(sums.data[i]) - (chosen.data[i] - top.data[i]);
      losses.data[i] = targets.data[i] < 0 ? A(0) : loss;
    });
  }
};

// logits → their gradient, in place: factor · (softmax - 1 at the target); 0 for an ignored target.
template <class T>
struct CrossEntropyBackward {
  using A = Arithmetic<T>;
  Rows<T> logits;
  Rows<const A> top, sums;
  Rows<const int32_t> targets;
  int64_t first, cols;
  double factor;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    T* x = logits[row];
    const int64_t target = targets.data[row];
    if (target < 0) {
      each(group, cols, [&](int64_t c) { x[c] = T(A(0)); });
      return;
    }
    const A shift = top.data[row];
    const A scale = A(factor) / sums.data[row];
    const A logit = target >= first && target - first < cols ? A(x[target - first]) : A(0);
    group.sync();  // every thread has read the target's logit before its owner overwrites it
    each(group, cols, [&](int64_t c) { x[c] = T(exponential(A(x[c]) - shift) * scale); });
    group.sync();
    if (group.rank() == 0 && target >= first && target - first < cols)
      x[target - first] = T(exponential(logit - shift) * scale - A(factor));
  }
};

}  // namespace kernels
