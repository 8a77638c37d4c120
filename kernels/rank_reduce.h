// Reductions over the buffers of several ranks, element by element in rank order.
#pragma once
#include "kernels/elementwise.h"

namespace kernels {

// Of ranks that share a device.
struct RankBuffers {
  static constexpr int kMost = 64;
  const void* sources[kMost];
  void* targets[kMost];
  int source_count = 0, target_count = 0;
};

// target[i] = source[0][i] ∘ source[1][i] ∘ … for every target, of which any may be a source.
// bf16 is summed in f32 and rounded once; a maximum is NaN where any source is.
template <class T, bool kMaximum>
struct RankReduce {
  using A = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;
  RankBuffers buffers;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    each(group, tile.count, [&](int64_t c) {
      const int64_t i = tile.first + c;
      A total = A(static_cast<const T*>(buffers.sources[0])[i]);
      for (int rank = 1; rank < buffers.source_count; ++rank)
        total = combine(total, A(static_cast<const T*>(buffers.sources[rank])[i]));
      for (int rank = 0; rank < buffers.target_count; ++rank)
        static_cast<T*>(buffers.targets[rank])[i] = T(total);
    });
  }

 private:
  HOST_DEVICE static A combine(A a, A b) {
    if constexpr (kMaximum)
      return b > a || b != b ? b : a;
    else
      return static_cast<A>(a + b);
  }
};

}  // namespace kernels
