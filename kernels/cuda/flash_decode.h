// Attention of single tokens over a cache in pages, on tensor cores: many blocks share the context
// of a token, and a second kernel merges what they found (Dao et al. 2023, Flash-Decoding). The
// heads that share keys and values are the rows of one tile, so that the cache is read once.
#pragma once
#include "kernels/cuda/warp_tile.h"
#include "kernels/paged_attention.h"

namespace kernels::cuda {

// What a part of the context contributes to one head: Σ 2^(score - top) · value, and Σ 2^(score -
// top). Scores are in units of log 2.
struct SplitTotals {
  float top, total;
};

// The contributions of `parts` parts, relative to their common top: f(part, weight) for each.
template <class Totals, class F>
DEVICE SplitTotals merge_parts(int parts, Totals totals_of, F f) {
  SplitTotals all{-kInfinity, 0};
  for (int i = 0; i < parts; ++i) all.top = larger(all.top, totals_of(i).top);
  if (all.top == -kInfinity) return all;
  for (int i = 0; i < parts; ++i) {
    const SplitTotals part = totals_of(i);
    const float weight = exp2f(part.top - all.top);
    all.total += weight * part.total;
    f(i, weight);
  }
  return all;
}

// Where the blocks of one token and head leave what they found: sums [head row, split, kHeadDim],
// and the totals behind all of them.
struct SplitResults {
  float* sums = nullptr;  // null when there is one split, which writes the result itself
  SplitTotals* totals = nullptr;
  int splits = 1;

  static int64_t scratch_bytes(int64_t head_rows, int64_t head_dim, int splits) {
    return head_rows * splits * (head_dim * int64_t{sizeof(float)} + int64_t{sizeof(SplitTotals)});
  }
  SplitResults() = default;
  SplitResults(void* scratch, int64_t head_rows, int64_t head_dim, int splits_)
      : sums(static_cast<float*>(scratch)),
        totals(reinterpret_cast<SplitTotals*>(sums + head_rows * splits_ * head_dim)),
        splits(splits_) {}
};

// As PagedAttention (paged_attention.h): one split of the context of one token, for up to 16 heads.
template <int kHeadDim>
struct FlashDecode {
  static constexpr int kThreads = 128, kBlocks = 3;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kHeads = 16, kKeys = 64;  // of a tile
  static constexpr int kKeysOfWarp = kKeys / kWarps;
  static constexpr int kStride = kHeadDim + 8;  // of merged sums: rows in different banks
  using Tile = SharedTile<kHeadDim>;
  using Scores = WarpTile<1, kKeysOfWarp / 8>;
  using Sums = WarpTile<1, kHeadDim / 8>;

  PagedAttention<bfloat16> in;
  SplitResults results;

  static int64_t head_tiles(const PagedShape& s) {
    return s.kv_heads * ((s.heads / s.kv_heads + kHeads - 1) / kHeads);
  }
  // As many splits as fill the chip, of at least two tiles of keys each.
  static int splits_for(const PagedAttention<bfloat16>& in, int64_t tokens, int multiprocessors) {
    const int64_t alone = tokens * head_tiles(in.shape);
    const int64_t wanted = (int64_t{kBlocks} * multiprocessors + alone - 1) / alone;
    const int64_t most = in.pages * in.shape.page_tokens / (2 * kKeys);
    return static_cast<int>(larger(int64_t{1}, smaller(wanted, most)));
  }
  int64_t blocks(int64_t tokens) const { return tokens * head_tiles(in.shape) * results.splits; }
  // The merged sums of the warps take the place of the two stages.
  int64_t shared_bytes() const {
    return int64_t{Tile::bytes(kHeads + 4 * kKeys)} +
           kWarps * kHeads * int64_t{sizeof(SplitTotals)};
  }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const Place at(block.index(), in.shape, results.splits);
    const int visible = in.visible.data[at.token];
    const int tiles = (visible + kKeys - 1) / kKeys;
    const int begin = static_cast<int>(int64_t{tiles} * at.split / results.splits) * kKeys;
    const int end = smaller(
        visible, static_cast<int>(int64_t{tiles} * (at.split + 1) / results.splits) * kKeys);
    const Tile query_tile{0}, stages = query_tile.below(kHeads);
    const HeadRows<const bfloat16> query{in.query[at.token] + at.first_head * kHeadDim, kHeadDim};
    if (begin < end) {
      load_query(block, query_tile, query, at.heads);
      load_stage(block, stages, at, begin, end);
    }
    const int warp_key = block.thread() / kWarpSize * kKeysOfWarp;
    SplitTotals totals[2] = {{-kInfinity, 0}, {-kInfinity, 0}};  // of the rows of a lane
    Sums sums;
    sums.clear();
    for (int first = begin; first < end; first += kKeys) {
      block.template wait_copies<0>();
      block.sync();  // the stage has arrived, and the one before is no longer in use
      const Tile keys = stage_tile(stages, first - begin);
      if (first + kKeys < end)
        load_stage(block, stage_tile(stages, first + kKeys - begin), at, first + kKeys, end);
      if (first + warp_key >= end) continue;
      Scores scores;
      scores.clear();
      add_product_transposed(block, scores, query_tile, 0, keys, warp_key);
      soften(block, scores, sums, totals, end - first - warp_key);
      add_product(block, sums, scores, keys.below(kKeys), warp_key);
    }
    finish(block, at, sums, totals, stages);
  }

 private:
  // Which part of the work a block does.
  struct Place {
    int token, split, kv_head, first_head, heads;

    DEVICE Place(int64_t index, const PagedShape& s, int splits) {
      const int group = static_cast<int>(s.heads / s.kv_heads);
      const int tiles = (group + kHeads - 1) / kHeads;
      split = static_cast<int>(index % splits);
      const int64_t rest = index / splits;
      const int tile = static_cast<int>(rest % tiles);
      kv_head = static_cast<int>(rest / tiles % s.kv_heads);
      token = static_cast<int>(rest / tiles / s.kv_heads);
      first_head = kv_head * group + tile * kHeads;
      heads = smaller(kHeads, group - tile * kHeads);
    }
  };

  static DEVICE Tile stage_tile(Tile stages, int passed) {
    return stages.below(passed / kKeys % 2 * 2 * kKeys);
  }

  template <ThreadBlock B>
  static DEVICE void load_query(const B& block, Tile tile, HeadRows<const bfloat16> query,
                                int heads) {
    for (int i = block.thread(); i < kHeads * Tile::kPieces; i += kThreads) {
      const int row = i / Tile::kPieces, p = i % Tile::kPieces;
      block.template copy_async<16>(tile.piece(row, p), query[row < heads ? row : 0] + p * 8,
                                    row < heads);
    }
  }

  // Keys, and below them values, of the tokens from `first` on; those behind `end` become 0.
  template <ThreadBlock B>
  DEVICE void load_stage(const B& block, Tile tile, const Place& at, int first, int end) const {
    constexpr int kPieces = Tile::kPieces, kStep = kThreads / kPieces;
    static_assert(kStep % 8 == 0 && kKeys % kStep == 0);
    const int32_t* table = in.tables[in.sequences.data[at.token]];
    const int page_tokens = static_cast<int>(in.shape.page_tokens);
    const int row = block.thread() / kPieces, p = block.thread() % kPieces;
    const int column = at.kv_head * kHeadDim + p * 8;
    const uint32_t to = tile.piece(row, p);
    KERNELS_UNROLL
    for (int i = 0; i < kKeys / kStep; ++i) {
      const int here = first + row + i * kStep;
      const int token = here < end ? here : first, page = token / page_tokens;
      const int64_t place = int64_t{table[page]} * page_tokens + (token - page * page_tokens);
      const uint32_t there = to + Tile::bytes(i * kStep);
      block.template copy_async<16>(there, in.key[place] + column, here < end);
      block.template copy_async<16>(there + Tile::bytes(kKeys), in.value[place] + column,
                                    here < end);
    }
    block.commit_copies();
  }

  // Scores of which `count` columns exist become powers of 2 relative to the new tops; what was
  // summed before follows.
  template <ThreadBlock B>
  DEVICE void soften(const B& block, Scores& scores, Sums& sums, SplitTotals (&totals)[2],
                     int count) const {
    const float factor = static_cast<float>(in.shape.scale) * kLog2E;
    const int lane = block.thread() % kWarpSize;
    float top[2] = {totals[0].top, totals[1].top}, rescale[2];
    scores.each(lane, [&](float& x, int s, int column) {
      x = column < count ? x * factor : -kInfinity;
      top[s] = larger(top[s], x);
    });
    KERNELS_UNROLL
    for (int s = 0; s < 2; ++s) {
      top[s] = lanes_max(block, top[s], 4);  // of a key at least, as every tile has one
      rescale[s] = block.power_of_two(totals[s].top - top[s]);
      totals[s].top = top[s];
      totals[s].total *= rescale[s];
    }
    sums.each(lane, [&](float& x, int s, int) { x *= rescale[s]; });
    scores.each(lane, [&](float& x, int s, int) {
      x = block.power_of_two(x - top[s]);
      totals[s].total += x;
    });
  }

  // Merges what the warps found, through shared memory.
  template <ThreadBlock B>
  DEVICE void finish(const B& block, const Place& at, Sums& sums, SplitTotals (&totals)[2],
                     Tile stages) const {
    auto* found = reinterpret_cast<float*>(block.shared() + stages.start);
    auto* found_totals =
        reinterpret_cast<SplitTotals*>(block.shared() + stages.below(4 * kKeys).start);
    static_assert(kWarps * kHeads * kStride * sizeof(float) <= Tile::bytes(4 * kKeys));
    const int warp = block.thread() / kWarpSize, lane = block.thread() % kWarpSize;
    block.sync();  // no stage is in use any more
    sums.each(lane, [&](float& x, int s, int column) {
      found[(warp * kHeads + Sums::row_of(lane, s)) * kStride + column] = x;
    });
    KERNELS_UNROLL
    for (int s = 0; s < 2; ++s) {
      totals[s].total = lanes_sum(block, totals[s].total, 4);
      if (member_of(lane) == 0) found_totals[warp * kHeads + Sums::row_of(lane, s)] = totals[s];
    }
    block.sync();
    for (int i = block.thread(); i < at.heads * kHeadDim; i += kThreads) {
      const int row = i / kHeadDim, column = i % kHeadDim;
      float sum = 0;
      const SplitTotals all = merge_parts(
          kWarps, [&](int w) { return found_totals[w * kHeads + row]; },
          [&](int w, float weight) {
            sum += weight * found[(w * kHeads + row) * kStride + column];
          });
      store(at, row, column, sum, all);
    }
  }
  DEVICE void store(const Place& at, int row, int column, float sum, const SplitTotals& all) const {
    const int64_t head = at.first_head + row;
    if (results.sums == nullptr) {
      in.out[at.token][head * kHeadDim + column] = bfloat16(all.total > 0 ? sum / all.total : 0.0f);
      return;
    }
    const int64_t place = (at.token * in.shape.heads + head) * results.splits + at.split;
    results.sums[place * kHeadDim + column] = sum;
    if (column == 0) results.totals[place] = all;
  }
};

// The result of one token and head a block, from its splits.
template <int kHeadDim>
struct MergeSplits {
  static constexpr int kThreads = kHeadDim, kBlocks = 8;
  Rows<bfloat16> out;
  int64_t heads;
  SplitResults results;

  int64_t shared_bytes() const { return 0; }
  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t first = block.index() * results.splits;
    float sum = 0;
    const SplitTotals all = merge_parts(
        results.splits, [&](int i) { return results.totals[first + i]; },
        [&](int i, float weight) {
          sum += weight * results.sums[(first + i) * kHeadDim + block.thread()];
        });
    out[block.index() / heads][block.index() % heads * kHeadDim + block.thread()] =
        bfloat16(all.total > 0 ? sum / all.total : 0.0f);
  }
};

}  // namespace kernels::cuda
