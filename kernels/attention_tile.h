// Attention in tiles for one host thread: the forward kernel of attention.h, blocked so that the
// products run at the speed of a matrix library and stay in the cache.
#pragma once
#include "kernels/tile.h"

namespace kernels {

// Which head and tile an item is. Later tiles see more keys, so they are handed out first.
struct TileItem {
  int64_t sequence, head, first, count;

  HOST_DEVICE TileItem(int64_t item, int64_t heads, int64_t tokens) {
    const int64_t tiles = (tokens + kLanes - 1) / kLanes;
    first = (tiles - 1 - item % tiles) * kLanes;
    count = smaller(kLanes, tokens - first);
    head = item / tiles % heads;
    sequence = item / tiles / heads;
  }
};

// 64 queries of one head an item.
template <class T>
struct AttentionTileForward {
  AttentionOperands<T> in;
  Rows<T> out;
  Rows<float> log_sum;

  HOST_DEVICE void operator()(const SerialGroup&, int64_t item) const {
    const AttentionShape& shape = in.shape;
    const TileItem at(item, shape.heads, shape.queries);
    const int64_t dim = shape.head_dim;
    const auto k = in.of_kv_head(in.key, at.sequence, at.head / in.group_size());
    const auto v = in.of_kv_head(in.value, at.sequence, at.head / in.group_size());
    alignas(64) float query[kTileHeadDim * kLanes], sums[kTileHeadDim * kLanes];
    alignas(64) float scores[kTileRows * kLanes], row_tile[kTileRows * kTileStride];
    alignas(64) float top[kLanes], total[kLanes];
    load_lanes(in.of_head(in.query, at.sequence, at.head), at.first, at.count, dim, query);
    for (int64_t i = 0; i < dim * kLanes; ++i) sums[i] = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      top[lane] = -std::numeric_limits<float>::infinity();
      total[lane] = 0;
    }
    const int64_t visible = in.visible()(at.first + at.count - 1);
    for (int64_t first = 0; first < visible; first += kTileRows) {
      const int64_t count = smaller(kTileRows, visible - first);
      load_rows(k, first, count, dim, row_tile);
      tile_multiply<kTokensAreRows>(scores, row_tile, query, count, dim);
      online_softmax(at, first, count, scores, top, total, sums);
      load_rows(v, first, count, dim, row_tile);
      tile_multiply<kTokensAreSummed>(sums, row_tile, scores, dim, count);
    }
    finish(at, top, total, sums);
  }

 private:
  // scores → dropped-out weights relative to the new maxima; totals and sums follow the maxima.
  HOST_DEVICE void online_softmax(const TileItem& at, int64_t first, int64_t count, float* scores,
                                  float* top, float* total, float* sums) const {
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    const float scale = static_cast<float>(in.shape.scale);
    alignas(64) float rescale[kLanes], new_top[kLanes];
    // Key `first + j` is hidden from the lanes below hidden(j).
    const int64_t shift = at.first + in.shape.keys - in.shape.queries;
    for (int64_t lane = 0; lane < kLanes; ++lane) new_top[lane] = top[lane];
    for (int64_t j = 0; j < count; ++j) {
      float* s = scores + j * kLanes;
      const int32_t hidden = in.shape.causal ? static_cast<int32_t>(first + j - shift) : 0;
      KERNELS_SIMD
      for (int32_t lane = 0; lane < static_cast<int32_t>(kLanes); ++lane) {
        s[lane] = lane < hidden ? kHidden : s[lane] * scale;
        new_top[lane] = larger(new_top[lane], s[lane]);
      }
    }
    KERNELS_SIMD
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      // A lane that has seen no key yet keeps weights 0 and no NaN.
      const float bounded = larger(new_top[lane], -3e38f);
      rescale[lane] = exponential(top[lane] - bounded);
      top[lane] = bounded;
      total[lane] *= rescale[lane];
    }
    for (int64_t j = 0; j < count; ++j) {
      float* s = scores + j * kLanes;
      KERNELS_SIMD
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        s[lane] = exponential(s[lane] - top[lane]);
        total[lane] += s[lane];
      }
    }
    if (in.shape.dropout.active()) drop(at, first, count, scores);
    for (int64_t c = 0; c < in.shape.head_dim; ++c) {
      KERNELS_SIMD
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[c * kLanes + lane] *= rescale[lane];
    }
  }
  HOST_DEVICE void drop(const TileItem& at, int64_t first, int64_t count, float* scores) const {
    const int64_t row = (at.sequence * in.shape.heads + at.head) * in.shape.queries + at.first;
    for (int64_t lane = 0; lane < at.count; ++lane) {
      const DropoutRow numbers = in.dropout_of(row + lane);
      for (int64_t j = 0; j < count; ++j) scores[j * kLanes + lane] *= numbers.factor(first + j);
    }
  }
  HOST_DEVICE void finish(const TileItem& at, const float* top, const float* total,
                          float* sums) const {
    alignas(64) float inverse[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane)
      inverse[lane] = total[lane] > 0 ? 1 / total[lane] : 0;
    for (int64_t c = 0; c < in.shape.head_dim; ++c) {
      KERNELS_SIMD
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[c * kLanes + lane] *= inverse[lane];
    }
    store_lanes(sums, in.of_head(out, at.sequence, at.head), at.first, at.count, in.shape.head_dim);
    float* saved = log_sum[at.sequence * in.shape.heads + at.head] + at.first;
    for (int64_t lane = 0; lane < at.count; ++lane)
      saved[lane] = total[lane] > 0 ? top[lane] + logarithm(total[lane])
                                    : -std::numeric_limits<float>::infinity();
  }
};

}  // namespace kernels
