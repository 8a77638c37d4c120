// The gradient of fused attention on tensor cores, in three kernels: out · grad_out of every query,
// then grad_query by tiles of queries, and grad_key and grad_value by tiles of keys.
//
// One pass over both would save a seventh of the products (5 of 7 instead of 7), but would add to
// grad_query from many blocks in any order: here the same input gives the same bits.
#pragma once
#include "kernels/cuda/flash_attention.h"

namespace kernels::cuda {

// along[(sequence · heads + head) · queries + query] = out · grad_out. head_dim / 8 lanes a query.
struct FlashAlong {
  static constexpr int kThreads = 128, kBlocks = 8;
  AttentionShape shape;
  int64_t query_rows;
  Rows<const bfloat16> out, grad_out;
  float* along;

  int lanes() const { return static_cast<int>(shape.head_dim / 8); }
  int64_t blocks() const {
    const int64_t per_block = kThreads / lanes();
    return (shape.sequences * shape.heads * shape.queries + per_block - 1) / per_block;
  }
  int64_t shared_bytes() const { return 0; }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int per_query = static_cast<int>(shape.head_dim / 8);
    const int64_t item = block.index() * (kThreads / per_query) + block.thread() / per_query;
    // Heads of a token first, as they lie in memory.
    const int64_t head = item % shape.heads, token = item / shape.heads;
    const bool present = token < shape.sequences * shape.queries;
    const int64_t sequence = token / shape.queries, query = token % shape.queries;
    float sum = 0;
    if (present) {
      const int64_t row =
          shape.token_major ? query * shape.sequences + sequence : sequence * query_rows + query;
      const int64_t column = head * shape.head_dim + block.thread() % per_query * 8;
      const auto y = load_piece(out[row] + column), dy = load_piece(grad_out[row] + column);
      KERNELS_UNROLL
      for (int i = 0; i < 8; ++i) sum += float(y.v[i]) * float(dy.v[i]);
    }
    sum = lanes_sum(block, sum, per_query);
    if (present && block.thread() % per_query == 0)
      along[(sequence * shape.heads + head) * shape.queries + query] = sum;
  }
};

// What both backward kernels read.
struct FlashSaved {
  Rows<const bfloat16> grad_out;
  Rows<const float> log_sum;
  const float* along;
};

// grad_query = scale · Σ_keys dS · k. Queries stay, keys and values pass by, as in FlashForward.
template <int kHeadDim>
struct FlashBackwardQuery {
  static constexpr int kThreads = 128, kBlocks = 2;
  static constexpr int kRowTiles = 2;
  static constexpr int kQueries = kThreads / kWarpSize * kRowTiles * 16;
  static constexpr int kKeys = 32;                          // of a stage
  static constexpr int kAtOnce = kHeadDim == 64 ? 32 : 16;  // as the registers hold
  using Tile = SharedTile<kHeadDim>;
  using Scores = WarpTile<kRowTiles, kAtOnce / 8>;
  using Sums = WarpTile<kRowTiles, kHeadDim / 8>;

  FlashOperands in;
  FlashSaved saved;
  Rows<bfloat16> grad_query;

  static int64_t blocks(const AttentionShape& s) {
    return s.sequences * s.heads * ((s.queries + kQueries - 1) / kQueries);
  }
  int64_t shared_bytes() const {
    const int64_t numbers = in.shape.dropout.active() ? int64_t{kQueries} * sizeof(RowStream) : 0;
    return int64_t{Tile::bytes(2 * kQueries + 4 * kKeys)} + numbers;
  }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const AttentionShape& shape = in.shape;
    const FlashBlock at(block.index(), shape.sequences, shape.heads, shape.queries, kQueries, true);
    const int queries = static_cast<int>(smaller(int64_t{kQueries}, shape.queries - at.first));
    const auto key = in.of_kv_head(in.key, at.sequence, at.head / in.group_size());
    const auto value = in.of_kv_head(in.value, at.sequence, at.head / in.group_size());
    const Tile query_tile{0}, grad_tile = query_tile.below(kQueries);
    const Tile stages = grad_tile.below(kQueries);
    auto* numbers = reinterpret_cast<RowStream*>(block.shared() + stages.below(4 * kKeys).start);

    const int keys = visible_keys(shape, at.first + queries - 1);
    const auto stage_tile = [&](int first) { return stages.below(first / kKeys % 2 * 2 * kKeys); };
    const auto load_stage = [&](int first) {
      load_tile<kThreads, kKeys>(block, stage_tile(first), key, first, shape.keys - first);
      load_tile<kThreads, kKeys>(block, stage_tile(first).below(kKeys), value, first,
                                 shape.keys - first);
      block.commit_copies();
    };
    if (keys > 0) {
      load_tile<kThreads, kQueries>(block, query_tile, in.of_head(in.query, at.sequence, at.head),
                                    at.first, queries);
      load_tile<kThreads, kQueries>(
          block, grad_tile, in.of_head(saved.grad_out, at.sequence, at.head), at.first, queries);
      load_stage(0);
    }
    if (shape.dropout.active() && block.thread() < queries)
      numbers[block.thread()] =
          dropout_numbers(shape, at.sequence, at.head, at.first + block.thread());

    const int warp_row = block.thread() / kWarpSize * kRowTiles * 16;
    const OwnRows rows(*this, at, queries, warp_row, block.thread() % kWarpSize);
    Sums sums;
    sums.clear();
    for (int first = 0; first < keys; first += kKeys) {
      block.template wait_copies<0>();
      block.sync();  // the stage has arrived, and the one before is no longer in use
      if (first + kKeys < keys) load_stage(first + kKeys);
      const int seen = visible_keys(shape, at.first + warp_row + kRowTiles * 16 - 1) - first;
      const Tile keys_here = stage_tile(first), values_here = keys_here.below(kKeys);
      KERNELS_NO_UNROLL
      for (int part = 0; part < smaller(kKeys, seen); part += kAtOnce) {
        Scores scores, gradients;
        scores.clear();
        gradients.clear();
        add_product_transposed(block, scores, query_tile, warp_row, keys_here, part);
        add_product_transposed(block, gradients, grad_tile, warp_row, values_here, part);
        differentiate(block, rows, numbers + warp_row, first + part, scores, gradients);
        add_product(block, sums, gradients, keys_here, part);
      }
    }
    const float scale = static_cast<float>(shape.scale);
    store_rows<kRowTiles, kHeadDim>(
        block, sums, query_tile, warp_row, in.of_head(grad_query, at.sequence, at.head),
        at.first + warp_row, queries - warp_row, [&](int) { return scale; });
  }

 private:
  // What the rows of a lane know of themselves. Queries behind the last see nothing.
  struct OwnRows {
    int lane, first, end;  // of the tile's queries
    float base[Sums::kRowsOfLane], along[Sums::kRowsOfLane];

    DEVICE OwnRows(const FlashBackwardQuery& k, const FlashBlock& at, int queries, int warp_row,
                   int own_lane)
        : lane(own_lane), first(at.first + warp_row), end(at.first + queries) {
      const int64_t row = at.sequence * k.in.shape.heads + at.head;
      KERNELS_UNROLL
      for (int s = 0; s < Sums::kRowsOfLane; ++s) {
        const int query = smaller(first + Sums::row_of(lane, s), end - 1);
        base[s] = k.saved.log_sum[row][query] * kLog2E;
        along[s] = k.saved.along[row * k.in.shape.queries + query];
      }
    }
  };

  // From scores and the gradients of the probabilities to the scores' gradients / scale.
  template <ThreadBlock B>
  DEVICE void differentiate(const B& block, const OwnRows& rows, const RowStream* numbers,
                            int first_key, Scores& scores, Scores& gradients) const {
    const float factor = static_cast<float>(in.shape.scale) * kLog2E;
    scores.each(rows.lane, [&](float& x, int s, int column) {
      const int query = rows.first + Sums::row_of(rows.lane, s);
      const bool seen = query < rows.end && first_key + column < visible_keys(in.shape, query);
      x = seen ? block.power_of_two(x * factor - rows.base[s]) : 0.0f;
    });
    if (in.shape.dropout.active()) {
      const FlashDropout dropout(in.shape.dropout, numbers);
      gradients.each(rows.lane, [&](float& x, int s, int column) {
        const RowStream& row = numbers[Sums::row_of(rows.lane, s)];
        x = dropout.drops(row, first_key + column) ? 0.0f : x * dropout.scale;
      });
    }
    KERNELS_UNROLL
    for (int m = 0; m < kRowTiles; ++m) KERNELS_UNROLL
    for (int n = 0; n < kAtOnce / 8; ++n) KERNELS_UNROLL
    for (int i = 0; i < 4; ++i)
      gradients.c[m][n][i] = scores.c[m][n][i] * (gradients.c[m][n][i] - rows.along[2 * m + i / 2]);
  }
};

}  // namespace kernels::cuda
