// Fused attention on tensor cores: softmax(scale · Q Kᵀ) V, one tile of queries a block, keys and
// values passing by in shared memory (Dao 2023, FlashAttention-2, algorithm 1). bf16 in and out,
// products summed in f32, probabilities rounded to bf16 before they meet the values.
#pragma once
#include "kernels/attention.h"
#include "kernels/cuda/warp_tile.h"

namespace kernels::cuda {

using FlashOperands = AttentionOperands<bfloat16>;

// Which sequence, head and tile of tokens a block works on. Of a causal shape the tiles with most
// keys begin first, so that no long block is left at the end: `last_first` for queries.
struct FlashBlock {
  int sequence, head, first;  // token

  DEVICE FlashBlock(int64_t index, int64_t sequences, int64_t heads, int64_t tokens, int tile,
                    bool last_first) {
    const int place = static_cast<int>(index % (sequences * heads));
    const int64_t step = index / (sequences * heads);
    const int64_t tiles = (tokens + tile - 1) / tile;
    sequence = place / static_cast<int>(heads);
    head = place % static_cast<int>(heads);
    first = static_cast<int>((last_first ? tiles - 1 - step : step) * tile);
  }
};

// The number of keys that a query sees.
DEVICE int visible_keys(const AttentionShape& shape, int query) {
  const int keys = static_cast<int>(shape.keys);
  if (!shape.causal) return keys;
  return smaller(keys, larger(0, query + keys - static_cast<int>(shape.queries) + 1));
}

// Dropout of one block: the numbers of its queries, and the rule for all.
struct FlashDropout {
  uint32_t threshold, first_column;
  float scale;
  const RowStream* rows;  // in shared memory, one a query

  DEVICE FlashDropout(const Dropout& dropout, const RowStream* numbers)
      : threshold(dropout.threshold()),
        first_column(static_cast<uint32_t>(dropout.first_column)),
        scale(dropout.keep_scale()),
        rows(numbers) {}
  DEVICE bool drops(const RowStream& row, int key) const {
    return row.bits(first_column + static_cast<uint32_t>(key)) < threshold;
  }
};
DEVICE RowStream dropout_numbers(const AttentionShape& shape, int64_t sequence, int64_t head,
                                 int64_t query) {
  const int64_t row = (sequence * shape.heads + head) * shape.queries + query;
  return row_stream(shape.dropout.stream, shape.dropout.rows(row));
}

template <int kHeadDim>
struct FlashForward {
  static constexpr int kThreads = 128, kBlocks = 2;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kRowTiles = 2;
  static constexpr int kQueries = kWarps * kRowTiles * 16;
  // As many keys at a time as the registers hold scores beside the sums.
  static constexpr int kKeys = kHeadDim == 64 ? 64 : 32;
  using Tile = SharedTile<kHeadDim>;
  using Scores = WarpTile<kRowTiles, kKeys / 8>;
  using Sums = WarpTile<kRowTiles, kHeadDim / 8>;

  FlashOperands in;
  Rows<bfloat16> out;
  Rows<float> log_sum;  // [sequences · heads, queries]

  static int64_t blocks(const AttentionShape& s) {
    return s.sequences * s.heads * ((s.queries + kQueries - 1) / kQueries);
  }
  int64_t shared_bytes() const {
    const int64_t numbers = in.shape.dropout.active() ? int64_t{kQueries} * sizeof(RowStream) : 0;
    return int64_t{Tile::bytes(kQueries + 4 * kKeys)} + numbers;
  }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const AttentionShape& shape = in.shape;
    const FlashBlock at(block.index(), shape.sequences, shape.heads, shape.queries, kQueries, true);
    const int queries = static_cast<int>(smaller(int64_t{kQueries}, shape.queries - at.first));
    const auto query = in.of_head(in.query, at.sequence, at.head);
    const auto key = in.of_kv_head(in.key, at.sequence, at.head / in.group_size());
    const auto value = in.of_kv_head(in.value, at.sequence, at.head / in.group_size());
    const Tile query_tile{0}, stages = query_tile.below(kQueries);
    auto* numbers = reinterpret_cast<RowStream*>(block.shared() + stages.below(4 * kKeys).start);

    const int keys = visible_keys(shape, at.first + queries - 1);
    const auto load_stage = [&](int first) {
      const Tile keys_there = stage_tile(stages, first);
      load_tile<kThreads, kKeys>(block, keys_there, key, first, shape.keys - first);
      load_tile<kThreads, kKeys>(block, keys_there.below(kKeys), value, first, shape.keys - first);
      block.commit_copies();
    };
    if (keys > 0) {
      load_tile<kThreads, kQueries>(block, query_tile, query, at.first, queries);
      load_stage(0);
    }
    if (shape.dropout.active() && block.thread() < queries)
      numbers[block.thread()] =
          dropout_numbers(shape, at.sequence, at.head, at.first + block.thread());

    const int warp_row = block.thread() / kWarpSize * kRowTiles * 16;
    Running running(at.first + warp_row, block.thread() % kWarpSize);
    Sums sums;
    sums.clear();
    for (int first = 0; first < keys; first += kKeys) {
      block.template wait_copies<0>();
      block.sync();  // the stage has arrived, and the one before is no longer in use
      if (first + kKeys < keys) load_stage(first + kKeys);
      if (first >= visible_keys(shape, at.first + warp_row + kRowTiles * 16 - 1)) continue;
      const Tile keys_here = stage_tile(stages, first);
      Scores scores;
      scores.clear();
      add_product_transposed(block, scores, query_tile, warp_row, keys_here, 0);
      soften(block, scores, sums, running, first);
      if (shape.dropout.active()) drop(scores, running, numbers + warp_row, first);
      add_product(block, sums, scores, keys_here.below(kKeys), 0);
    }
    finish(block, at, queries, warp_row, sums, running, query_tile);
  }

 private:
  // Of the rows of a lane: the largest score so far, and the sum of powers this lane has seen.
  struct Running {
    int first, lane;
    float top[Sums::kRowsOfLane], total[Sums::kRowsOfLane];

    DEVICE Running(int first_query, int own_lane) : first(first_query), lane(own_lane) {
      KERNELS_UNROLL
      for (int s = 0; s < Sums::kRowsOfLane; ++s) {
        top[s] = -kInfinity;
        total[s] = 0;
      }
    }
    DEVICE int query(int s) const { return first + Sums::row_of(lane, s); }
  };

  // Two stages of keys and values take turns.
  static DEVICE Tile stage_tile(Tile stages, int first_key) {
    return stages.below(first_key / kKeys % 2 * 2 * kKeys);
  }

  // Scores become powers of 2 relative to the new tops; what was summed before follows.
  template <ThreadBlock B>
  DEVICE void soften(const B& block, Scores& scores, Sums& sums, Running& running,
                     int first_key) const {
    const float factor = static_cast<float>(in.shape.scale) * kLog2E;
    const int lane = running.lane;
    if (first_key + kKeys > visible_keys(in.shape, running.first)) {
      int visible[Sums::kRowsOfLane];
      KERNELS_UNROLL
      for (int s = 0; s < Sums::kRowsOfLane; ++s)
        visible[s] = visible_keys(in.shape, running.query(s)) - first_key;
      scores.each(lane, [&](float& x, int s, int column) {
        if (column >= visible[s]) x = -kInfinity;
      });
    }
    float top[Sums::kRowsOfLane], base[Sums::kRowsOfLane];
    KERNELS_UNROLL
    for (int s = 0; s < Sums::kRowsOfLane; ++s) top[s] = running.top[s];
    scores.each(lane, [&](float& x, int s, int) { top[s] = larger(top[s], x); });
    float rescale[Sums::kRowsOfLane];
    KERNELS_UNROLL
    for (int s = 0; s < Sums::kRowsOfLane; ++s) {
      top[s] = lanes_max(block, top[s], 4);
      base[s] = top[s] == -kInfinity ? 0.0f : top[s] * factor;  // no key seen yet
      rescale[s] = block.power_of_two(running.top[s] * factor - base[s]);
      running.top[s] = top[s];
      running.total[s] *= rescale[s];
    }
    sums.each(lane, [&](float& x, int s, int) { x *= rescale[s]; });
    scores.each(lane, [&](float& x, int s, int) {
      x = block.power_of_two(x * factor - base[s]);
      running.total[s] += x;
    });
  }

  // Zeroes what is dropped; the rest is scaled at the end.
  DEVICE void drop(Scores& scores, const Running& running, const RowStream* numbers,
                   int first_key) const {
    const FlashDropout dropout(in.shape.dropout, numbers);
    scores.each(running.lane, [&](float& x, int s, int column) {
      if (dropout.drops(numbers[Sums::row_of(running.lane, s)], first_key + column)) x = 0;
    });
  }

  template <ThreadBlock B>
  DEVICE void finish(const B& block, const FlashBlock& at, int queries, int warp_row, Sums& sums,
                     const Running& running, Tile tile) const {
    const AttentionShape& shape = in.shape;
    float inverse[Sums::kRowsOfLane];
    float* logs = log_sum[at.sequence * shape.heads + at.head];
    KERNELS_UNROLL
    for (int s = 0; s < Sums::kRowsOfLane; ++s) {
      const float total = lanes_sum(block, running.total[s], 4);
      inverse[s] = total > 0 ? shape.dropout.keep_scale() / total : 0.0f;
      if (member_of(running.lane) == 0 && running.query(s) < at.first + queries)
        logs[running.query(s)] =
            running.top[s] * static_cast<float>(shape.scale) + logarithm(total);
    }
    store_rows<kRowTiles, kHeadDim>(block, sums, tile, warp_row,
                                    in.of_head(out, at.sequence, at.head), at.first + warp_row,
                                    queries - warp_row, [&](int s) { return inverse[s]; });
  }
};

}  // namespace kernels::cuda
