// The gradient of attention in tiles for one host thread, in one pass over the scores (Dao et al.
// 2022, algorithm 4): five products a tile.
#pragma once
#include <vector>

#include "kernels/attention_tile.h"

namespace kernels {

// All gradients of one key head an item. One thread walks through its key tiles in order, so that
// the sums for the queries, to which every key tile adds, have one order too.
template <class T>
struct AttentionTileBackward {
  AttentionOperands<T> in;
  AttentionGradients<T> saved;
  Rows<T> grad_query, grad_key, grad_value;

  HOST_DEVICE void operator()(const SerialGroup&, int64_t item) const {
    const int64_t tiles = (in.shape.keys + kLanes - 1) / kLanes;
    const int64_t sequence = item / in.shape.kv_heads, kv_head = item % in.shape.kv_heads;
    QuerySums sums(in.shape.queries * in.group_size(), in.shape.head_dim);
    for (int64_t row = 0; row < sums.rows; ++row)
      sums.along[row] = dot(SerialGroup{}, of_query(saved.out, sequence, kv_head, row),
                            of_query(saved.grad_out, sequence, kv_head, row), in.shape.head_dim);
    for (int64_t tile = 0; tile < tiles; ++tile)
      add_keys(TileItem(item * tiles + tile, in.shape.kv_heads, in.shape.keys), sums);
    for (int64_t row = 0; row < sums.rows; ++row) {
      T* y = of_query(grad_query, sequence, kv_head, row);
      for (int64_t c = 0; c < in.shape.head_dim; ++c)
        y[c] = T(sums.block(c / kLanes, row)[c % kLanes]);
    }
  }

 private:
  // Of the queries of one key head, head by head: out · grad_out, f32[rows], and the gradients in
  // blocks of kLanes columns, f32[blocks, rows, kLanes].
  struct QuerySums {
    int64_t rows, blocks;
    std::vector<float> along, data;
    QuerySums(int64_t query_rows, int64_t cols)
        : rows(query_rows),
          blocks((cols + kLanes - 1) / kLanes),
          along(static_cast<size_t>(rows)),
          data(static_cast<size_t>(rows * blocks * kLanes)) {}
    float* block(int64_t index, int64_t row) { return &data[(index * rows + row) * kLanes]; }
  };
  // What stays put while queries pass by: keys and values side by side, and the keys as rows.
  struct KeyTile {
    alignas(64) float key[kTileHeadDim * kLanes], value[kTileHeadDim * kLanes];
    alignas(64) float key_sums[kTileHeadDim * kLanes], value_sums[kTileHeadDim * kLanes];
    alignas(64) float key_rows[kTileRows * kTileStride];
  };

  HOST_DEVICE void add_keys(const TileItem& at, QuerySums& sums) const {
    const int64_t dim = in.shape.head_dim, group = in.group_size();
    const auto key = in.of_kv_head(in.key, at.sequence, at.head);
    KeyTile tile;
    load_lanes(key, at.first, at.count, dim, tile.key);
    load_lanes(in.of_kv_head(in.value, at.sequence, at.head), at.first, at.count, dim, tile.value);
    load_rows(key, at.first, at.count, dim, tile.key_rows);
    for (int64_t i = 0; i < at.count; ++i)  // the last block may be wider than the head
      for (int64_t c = dim; c < sums.blocks * kLanes; ++c) tile.key_rows[i * kTileStride + c] = 0;
    for (int64_t i = 0; i < dim * kLanes; ++i) tile.key_sums[i] = tile.value_sums[i] = 0;
    for (int64_t i = 0; i < group; ++i) add_head(at, i, tile, sums);
    store_lanes(tile.key_sums, in.of_kv_head(grad_key, at.sequence, at.head), at.first, at.count,
                dim);
    store_lanes(tile.value_sums, in.of_kv_head(grad_value, at.sequence, at.head), at.first,
                at.count, dim);
  }

  // The queries of one head, the `index`-th of the key head.
  HOST_DEVICE void add_head(const TileItem& at, int64_t index, KeyTile& tile,
                            QuerySums& sums) const {
    const AttentionShape& shape = in.shape;
    const int64_t dim = shape.head_dim, head = at.head * in.group_size() + index;
    const auto q = in.of_head(in.query, at.sequence, head);
    const auto dy = in.of_head(saved.grad_out, at.sequence, head);
    alignas(64) float query[kTileRows * kTileStride], grad_out[kTileRows * kTileStride];
    alignas(64) float scores[kTileRows * kLanes], grads[kTileRows * kLanes];
    // Query i sees the keys up to i + shift.
    const int64_t shift = shape.keys - shape.queries;
    const int64_t start = shape.causal ? larger(int64_t{0}, at.first - shift) : 0;
    for (int64_t first = start; first < shape.queries; first += kTileRows) {
      const int64_t count = smaller(kTileRows, shape.queries - first);
      load_rows(q, first, count, dim, query);
      load_rows(dy, first, count, dim, grad_out);
      tile_multiply<kTokensAreRows>(scores, query, tile.key, count, dim);
      tile_multiply<kTokensAreRows>(grads, grad_out, tile.value, count, dim);
      score_gradients(at, head, first, count, &sums.along[index * shape.queries + first], scores,
                      grads);
      tile_multiply<kTokensAreSummed>(tile.value_sums, grad_out, scores, dim, count);
      tile_multiply<kTokensAreSummed>(tile.key_sums, query, grads, dim, count);
      for (int64_t block = 0; block < sums.blocks; ++block)
        tile_multiply<kLanesAreSummed>(sums.block(block, index * shape.queries + first), grads,
                                       tile.key_rows + block * kLanes, count, at.count);
    }
  }

  // scores → the dropped-out probabilities; grads = grad_out · vᵀ → dS.
  HOST_DEVICE void score_gradients(const TileItem& at, int64_t head, int64_t first, int64_t count,
                                   const float* along, float* scores, float* grads) const {
    const AttentionShape& shape = in.shape;
    const float* log_sum = saved.log_sum[at.sequence * shape.heads + head];
    for (int64_t j = 0; j < count; ++j) {
      const int64_t row = (at.sequence * shape.heads + head) * shape.queries + first + j;
      const int64_t seen = smaller(at.count, in.visible()(row) - at.first);
      const auto gradient_row = [&](auto factor) {
        gradient_lanes(scores + j * kLanes, grads + j * kLanes, static_cast<int32_t>(seen),
                       log_sum[first + j], along[j], factor);
      };
      if (shape.dropout.active()) {
        const DropoutRow numbers = in.dropout_of(row);
        gradient_row(
            [numbers, key = at.first](int32_t lane) { return numbers.factor(key + lane); });
      } else {
        gradient_row([](int32_t) { return 1.0f; });
      }
    }
  }
  template <class F>
  HOST_DEVICE void gradient_lanes(float* s, float* g, int32_t seen, float log_sum, float along,
                                  F factor) const {
    const float scale = static_cast<float>(in.shape.scale);
    KERNELS_SIMD
    for (int32_t lane = 0; lane < static_cast<int32_t>(kLanes); ++lane) {
      const float power = exponential(s[lane] * scale - log_sum);
      const float p = lane < seen ? power : 0.0f;
      const float f = factor(lane);
      s[lane] = p * f;
      g[lane] = scale * p * (f * g[lane] - along);
    }
  }

  // A row of `matrix`, counted as in QuerySums.
  template <class U>
  HOST_DEVICE U* of_query(Rows<U> matrix, int64_t sequence, int64_t kv_head, int64_t row) const {
    const int64_t head = kv_head * in.group_size() + row / in.shape.queries;
    return in.of_head(matrix, sequence, head)[row % in.shape.queries];
  }
};

}  // namespace kernels
