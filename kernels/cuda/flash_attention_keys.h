// The gradients of keys and values in fused attention on tensor cores.
#pragma once
#include "kernels/cuda/flash_attention_backward.h"

namespace kernels::cuda {

// grad_value = Σ_queries dropout(p) · grad_out and grad_key = scale · Σ_queries dS · q, over all
// heads that share the keys. Keys and values stay, queries and gradients pass by. Scores are
// computed transposed [keys, queries]: then both products take them from the registers.
template <int kHeadDim>
struct FlashBackwardKey {
  static constexpr int kThreads = 128, kBlocks = 2;
  static constexpr int kRowTiles = kHeadDim == 64 ? 2 : 1;
  static constexpr int kKeys = kThreads / kWarpSize * kRowTiles * 16;
  static constexpr int kQueries = 32;                       // of a stage
  static constexpr int kAtOnce = kHeadDim == 64 ? 16 : 32;  // as the registers hold
  using Tile = SharedTile<kHeadDim>;
  using Scores = WarpTile<kRowTiles, kAtOnce / 8>;
  using Sums = WarpTile<kRowTiles, kHeadDim / 8>;

  FlashOperands in;
  FlashSaved saved;
  Rows<bfloat16> grad_key, grad_value;

  static int64_t blocks(const AttentionShape& s) {
    return s.sequences * s.kv_heads * ((s.keys + kKeys - 1) / kKeys);
  }
  int64_t shared_bytes() const {
    return int64_t{Tile::bytes(2 * kKeys + 4 * kQueries)} + 2 * int64_t{sizeof(QueryFacts)};
  }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const AttentionShape& shape = in.shape;
    const FlashBlock at(block.index(), shape.sequences, shape.kv_heads, shape.keys, kKeys, false);
    const int keys = static_cast<int>(smaller(int64_t{kKeys}, shape.keys - at.first));
    const Tile key_tile{0}, value_tile = key_tile.below(kKeys);

    // The queries that see a key of this tile, head by head.
    const int first_query = first_to_see(at.first) / kQueries * kQueries;
    const int queries = static_cast<int>(shape.queries);
    const int per_head = larger(0, (queries - first_query + kQueries - 1) / kQueries);
    const int group_size = static_cast<int>(in.group_size()), steps = per_head * group_size;
    const auto place = [&](int step) -> Place {
      return {at.sequence, at.head * group_size + step / per_head,
              first_query + step % per_head * kQueries};
    };
    if (steps > 0) {
      load_tile<kThreads, kKeys>(block, key_tile, in.of_kv_head(in.key, at.sequence, at.head),
                                 at.first, keys);
      load_tile<kThreads, kKeys>(block, value_tile, in.of_kv_head(in.value, at.sequence, at.head),
                                 at.first, keys);
      load_stage(block, stage(0), place(0));
    }
    const int warp_row = block.thread() / kWarpSize * kRowTiles * 16;
    Sums key_sums, value_sums;
    key_sums.clear();
    value_sums.clear();
    for (int step = 0; step < steps; ++step) {
      block.template wait_copies<0>();
      block.sync();  // the stage has arrived, and the one before is no longer in use
      if (step + 1 < steps) load_stage(block, stage(step + 1), place(step + 1));
      const Stage here = stage(step);
      const int first = place(step).first;
      KERNELS_NO_UNROLL
      for (int part = 0; part < smaller(kQueries, queries - first); part += kAtOnce) {
        if (first + part + kAtOnce <= first_to_see(at.first + warp_row)) continue;
        Scores scores, gradients;
        scores.clear();
        gradients.clear();
        add_product_transposed(block, scores, key_tile, warp_row, here.query, part);
        add_product_transposed(block, gradients, value_tile, warp_row, here.grad_out, part);
        differentiate(block, facts_of(block, here), at.first + warp_row, first, part, scores,
                      gradients);
        add_product(block, value_sums, scores, here.grad_out, part);
        add_product(block, key_sums, gradients, here.query, part);
      }
    }
    const float keep = shape.dropout.keep_scale(), scale = static_cast<float>(shape.scale);
    store_rows<kRowTiles, kHeadDim>(
        block, value_sums, value_tile, warp_row, in.of_kv_head(grad_value, at.sequence, at.head),
        at.first + warp_row, keys - warp_row, [&](int) { return keep; });
    store_rows<kRowTiles, kHeadDim>(
        block, key_sums, key_tile, warp_row, in.of_kv_head(grad_key, at.sequence, at.head),
        at.first + warp_row, keys - warp_row, [&](int) { return scale; });
  }

 private:
  struct QueryFacts {
    float log_sum[kQueries], along[kQueries];
    RowStream numbers[kQueries];
  };
  struct Place {
    int sequence, head, first;  // query
  };
  // Two stages, behind the tiles of keys and values, take turns.
  struct Stage {
    Tile query, grad_out;
    uint32_t facts;  // offset in shared memory
  };
  static DEVICE Stage stage(int step) {
    const Tile stages = Tile{0}.below(2 * kKeys), query = stages.below(step % 2 * 2 * kQueries);
    const uint32_t facts = stages.below(4 * kQueries).start;
    return {query, query.below(kQueries),
            facts + static_cast<uint32_t>(step % 2) * static_cast<uint32_t>(sizeof(QueryFacts))};
  }
  template <ThreadBlock B>
  static DEVICE QueryFacts& facts_of(const B& block, const Stage& stage) {
    return *reinterpret_cast<QueryFacts*>(block.shared() + stage.facts);
  }

  // The first query that sees a key; queries behind it do too.
  DEVICE int first_to_see(int key) const {
    if (!in.shape.causal) return 0;
    return larger(0, key - static_cast<int>(in.shape.keys - in.shape.queries));
  }

  template <ThreadBlock B>
  DEVICE void load_stage(const B& block, const Stage& stage, const Place& at) const {
    const AttentionShape& shape = in.shape;
    const int64_t count = shape.queries - at.first;
    load_tile<kThreads, kQueries>(block, stage.query, in.of_head(in.query, at.sequence, at.head),
                                  at.first, count);
    load_tile<kThreads, kQueries>(
        block, stage.grad_out, in.of_head(saved.grad_out, at.sequence, at.head), at.first, count);
    const int i = block.thread();
    if (i < kQueries) {
      const bool present = i < count;
      const int64_t row = at.sequence * shape.heads + at.head, query = at.first + (present ? i : 0);
      const uint32_t facts = stage.facts + static_cast<uint32_t>(4 * i);
      block.template copy_async<4>(facts, saved.log_sum[row] + query, present);
      block.template copy_async<4>(facts + static_cast<uint32_t>(offsetof(QueryFacts, along)),
                                   saved.along + row * shape.queries + query, present);
      if (shape.dropout.active())
        facts_of(block, stage).numbers[i] = dropout_numbers(shape, at.sequence, at.head, query);
    }
    block.commit_copies();
  }

  // Scores [keys, queries] become dropped probabilities / keep_scale, and the gradients of the
  // probabilities become those of the scores / scale.
  template <ThreadBlock B>
  DEVICE void differentiate(const B& block, const QueryFacts& facts, int first_key, int first_query,
                            int part, Scores& scores, Scores& gradients) const {
    const AttentionShape& shape = in.shape;
    const float factor = static_cast<float>(shape.scale) * kLog2E;
    const int lane = block.thread() % kWarpSize;
    const int queries = static_cast<int>(shape.queries) - first_query;
    int first_column[Sums::kRowsOfLane];  // that sees the key of this row
    KERNELS_UNROLL
    for (int s = 0; s < Sums::kRowsOfLane; ++s)
      first_column[s] = first_to_see(first_key + Sums::row_of(lane, s)) - first_query;
    const FlashDropout dropout(shape.dropout, facts.numbers);
    KERNELS_UNROLL
    for (int n = 0; n < kAtOnce / 8; ++n) KERNELS_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      const int column = part + 8 * n + 2 * member_of(lane) + odd;
      const float base = facts.log_sum[column] * kLog2E, along = facts.along[column];
      KERNELS_UNROLL
      for (int s = 0; s < Sums::kRowsOfLane; ++s) {
        float& score = scores.c[s / 2][n][2 * (s % 2) + odd];
        float& gradient = gradients.c[s / 2][n][2 * (s % 2) + odd];
        const bool seen = column >= first_column[s] && column < queries;
        const float p = seen ? block.power_of_two(score * factor - base) : 0.0f;
        bool dropped = false;
        if (shape.dropout.active())
          dropped = dropout.drops(facts.numbers[column], first_key + Sums::row_of(lane, s));
        score = dropped ? 0.0f : p;
        gradient = p * ((dropped ? 0.0f : gradient * dropout.scale) - along);
      }
    }
  }
};

}  // namespace kernels::cuda
