// Matrices in tensor-core kernels: tiles of bf16 in shared memory, tiles of sums in the registers
// of a warp, and the two products between them that attention is made of.
#pragma once
#include "kernels/attention.h"
#include "kernels/cuda/piece.h"

namespace kernels::cuda {

// Rows of kCols bf16 in shared memory, from `start` on (in bytes; a multiple of the rows' size), in
// pieces of 16 bytes. Piece p of row r stands at p xor r % 8: eight rows of one column then lie in
// different banks, for which load_matrices() asks.
template <int kCols>
struct SharedTile {
  static constexpr int kPieces = kCols / 8;
  uint32_t start;

  static constexpr HOST_DEVICE uint32_t bytes(int rows) {
    return static_cast<uint32_t>(rows * kCols * 2);
  }
  DEVICE SharedTile below(int rows) const { return {start + bytes(rows)}; }
  DEVICE uint32_t piece(int row, int p) const {
    return start + bytes(row) + static_cast<uint32_t>((p ^ (row % 8)) * 16);
  }
  // The piece of the same row whose number differs from that of `piece` in the bits of p: cheaper
  // than to find it anew.
  static DEVICE uint32_t turned(uint32_t piece, int p) {
    return piece ^ static_cast<uint32_t>(p * 16);
  }
};
template <ThreadBlock B>
DEVICE bfloat16* shared_at(const B& block, uint32_t offset) {
  return reinterpret_cast<bfloat16*>(block.shared() + offset);
}

// Starts copying kRows rows of src from `first` on to the tile, shared out over kThreads threads;
// of them `count` exist, the others become 0.
template <int kThreads, int kRows, int kCols, ThreadBlock B>
DEVICE void load_tile(const B& block, SharedTile<kCols> tile, HeadRows<const bfloat16> src,
                      int first, int64_t count) {
  // A thread takes the same piece of every kStep-th row; its place in the tile then moves evenly.
  constexpr int kPieces = SharedTile<kCols>::kPieces, kStep = kThreads / kPieces;
  static_assert(kThreads % kPieces == 0 && kStep % 8 == 0 && kRows % kStep == 0);
  const int row = block.thread() / kPieces, p = block.thread() % kPieces;
  const uint32_t to = tile.piece(row, p);
  const bfloat16* from = src[first] + p * 8;
  const int present = static_cast<int>(smaller(int64_t{kRows}, count));
  KERNELS_UNROLL
  for (int i = 0; i < kRows / kStep; ++i) {
    const int here = row + i * kStep;
    block.template copy_async<16>(to + tile.bytes(i * kStep),
                                  from + (here < present ? here : 0) * src.stride, here < present);
  }
}

// kM · 16 rows and kN · 8 columns of f32 sums, spread over the lanes of a warp as block.h says.
template <int kM, int kN>
struct WarpTile {
  static constexpr int kRowsOfLane = 2 * kM;
  float c[kM][kN][4];

  DEVICE void clear() {
    KERNELS_UNROLL
    for (int m = 0; m < kM; ++m) KERNELS_UNROLL
    for (int n = 0; n < kN; ++n) KERNELS_UNROLL
    for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
  }
  // The rows of a lane, s in [0, kRowsOfLane).
  static DEVICE int row_of(int lane, int s) { return 16 * (s / 2) + 8 * (s % 2) + group_of(lane); }
  // f(element, s, column) for every element of the lane, with s the row as above.
  template <class F>
  DEVICE void each(int lane, F f) {
    KERNELS_UNROLL
    for (int m = 0; m < kM; ++m) KERNELS_UNROLL
    for (int n = 0; n < kN; ++n) KERNELS_UNROLL
    for (int i = 0; i < 4; ++i) f(c[m][n][i], 2 * m + i / 2, 8 * n + 2 * member_of(lane) + i % 2);
  }
};

// sum += a · bᵀ for kM · 16 rows of a and kN · 8 rows of b.
template <int kM, int kN, int kDepth, ThreadBlock B>
DEVICE void add_product_transposed(const B& block, WarpTile<kM, kN>& sum, SharedTile<kDepth> a,
                                   int a_row, SharedTile<kDepth> b, int b_row) {
  static_assert(kN % 2 == 0);
  using Tile = SharedTile<kDepth>;
  const int lane = block.thread() % kWarpSize;
  const uint32_t a_piece = a.piece(a_row + lane % 16, lane / 16);
  const uint32_t b_piece = b.piece(b_row + lane % 8 + 8 * (lane / 16), lane / 8 % 2);
  KERNELS_UNROLL_TWICE  // more would only prefetch further, into registers that are not there
      for (int k = 0; k < kDepth / 16; ++k) {
    Fragment left[kM];
    KERNELS_UNROLL
    for (int m = 0; m < kM; ++m)
      left[m] = block.load_matrices(Tile::turned(a_piece, 2 * k) + Tile::bytes(16 * m));
    KERNELS_UNROLL
    for (int n = 0; n < kN; n += 2) {
      const Fragment right = block.load_matrices(Tile::turned(b_piece, 2 * k) + Tile::bytes(8 * n));
      KERNELS_UNROLL
      for (int m = 0; m < kM; ++m) {
        block.multiply_add(sum.c[m][n], left[m], right.r[0], right.r[1]);
        block.multiply_add(sum.c[m][n + 1], left[m], right.r[2], right.r[3]);
      }
    }
  }
}

// sum += p · b, with p rounded to bf16 and kN · 8 rows of b. The sums of a product have the places
// of a left operand, so p never leaves the registers.
template <int kM, int kN, int kCols, ThreadBlock B>
DEVICE void add_product(const B& block, WarpTile<kM, kCols / 8>& sum, const WarpTile<kM, kN>& p,
                        SharedTile<kCols> b, int b_row) {
  static_assert(kN % 2 == 0);
  using Tile = SharedTile<kCols>;
  const int lane = block.thread() % kWarpSize;
  const uint32_t b_piece = b.piece(b_row + lane % 16, lane / 16);
  KERNELS_UNROLL
  for (int k = 0; k < kN / 2; ++k) {
    Fragment left[kM];
    KERNELS_UNROLL
    for (int m = 0; m < kM; ++m) {
      const auto& near = p.c[m][2 * k];
      const auto& far = p.c[m][2 * k + 1];
      left[m] = {{pack_pair(near[0], near[1]), pack_pair(near[2], near[3]),
                  pack_pair(far[0], far[1]), pack_pair(far[2], far[3])}};
    }
    KERNELS_UNROLL
    for (int n = 0; n < kCols / 8; n += 2) {
      const Fragment right =
          block.load_matrices_transposed(Tile::turned(b_piece, n) + Tile::bytes(16 * k));
      KERNELS_UNROLL
      for (int m = 0; m < kM; ++m) {
        block.multiply_add(sum.c[m][n], left[m], right.r[0], right.r[1]);
        block.multiply_add(sum.c[m][n + 1], left[m], right.r[2], right.r[3]);
      }
    }
  }
}

// Rows [first, first + kM · 16) of dst, of which `count` exist, become factor(s) · sum, rounded.
// `tile` is room for them in shared memory, from `tile_row` on, that only this warp uses.
template <int kM, int kCols, ThreadBlock B, class Destination, class Factor>
DEVICE void store_rows(const B& block, WarpTile<kM, kCols / 8>& sum, SharedTile<kCols> tile,
                       int tile_row, const Destination& dst, int64_t first, int64_t count,
                       Factor factor) {
  const int lane = block.thread() % kWarpSize;
  block.sync_warp();  // every lane has read what stood there
  KERNELS_UNROLL
  for (int m = 0; m < kM; ++m) KERNELS_UNROLL
  for (int n = 0; n < kCols / 8; ++n) KERNELS_UNROLL
  for (int h = 0; h < 2; ++h) {
    const int s = 2 * m + h;
    bfloat16* piece = shared_at(block, tile.piece(tile_row + WarpTile<kM, 1>::row_of(lane, s), n));
    const float f = factor(s);
    reinterpret_cast<uint32_t*>(piece)[member_of(lane)] =
        pack_pair(f * sum.c[m][n][2 * h], f * sum.c[m][n][2 * h + 1]);
  }
  block.sync_warp();
  constexpr int kPieces = SharedTile<kCols>::kPieces;
  KERNELS_UNROLL
  for (int i = 0; i < kM * 16 * kPieces / kWarpSize; ++i) {
    const int at = lane + i * kWarpSize;
    const int row = at / kPieces, p = at % kPieces;
    if (row < count)
      store_piece(dst[first + row] + 8 * p,
                  load_piece(shared_at(block, tile.piece(tile_row + row, p))));
  }
}

}  // namespace kernels::cuda
