// Products of tiles of 64 × 64 for one host thread, and the loads and stores around them.
//
// A tile keeps 64 tokens side by side as vector lanes, so that softmax needs no sums across a
// vector and no matrix has to be transposed but the one that stays put; other tokens pass by as
// rows. Everything inside a tile is f32.
#pragma once
#include "kernels/attention.h"

namespace kernels {

constexpr int64_t kLanes = 64;         // tokens side by side
constexpr int64_t kTileRows = 64;      // tokens that pass by in one step
constexpr int64_t kTileHeadDim = 256;  // largest head_dim of the tile kernels

// Floats from one token of a row tile to the next: constant, as GCC's vectoriser of outer loops
// asks, and no power of two, so that tokens do not compete for the same lines of the cache.
constexpr int64_t kTileStride = kTileHeadDim + 16;

// A product dst[m][lane] (+)= Σ_k a(m, k) · b[k][lane]: where a(m, k) and b[k] stand, in floats,
// and whether dst is added to.
struct TileProduct {
  int64_t a_row, a_depth, b_depth;
  bool adds;
};
// Tokens of the row tile `a` are the rows of dst.
constexpr TileProduct kTokensAreRows{kTileStride, 1, kLanes, false};
// Tokens of the row tile `a` are summed over; its columns are the rows of dst.
constexpr TileProduct kTokensAreSummed{1, kTileStride, kLanes, true};
// The lanes of `a` are summed over with the tokens of the row tile `b`.
constexpr TileProduct kLanesAreSummed{kLanes, 1, kTileStride, true};

// kRows rows of a product; depth > 0. Two halves of the lanes go together: each element of `a`,
// once loaded, then serves two vectors.
template <TileProduct kProduct, int kRows>
HOST_DEVICE void tile_rows(float* dst, const float* a, const float* b, int64_t depth) {
  constexpr int64_t kHalf = kLanes / 2;
  KERNELS_SIMD
  for (int64_t lane = 0; lane < kHalf; ++lane) {
    float low[kRows], high[kRows];
    for (int i = 0; i < kRows; ++i) {
      low[i] = kProduct.adds ? dst[i * kLanes + lane] : 0;
      high[i] = kProduct.adds ? dst[i * kLanes + lane + kHalf] : 0;
    }
    int64_t k = 0;
    do {  // a loop known to run once lets GCC vectorise the loop around it
      const float b_low = b[k * kProduct.b_depth + lane];
      const float b_high = b[k * kProduct.b_depth + lane + kHalf];
      for (int i = 0; i < kRows; ++i) {
        const float element = a[i * kProduct.a_row + k * kProduct.a_depth];
        low[i] += element * b_low;
        high[i] += element * b_high;
      }
    } while (++k < depth);
    for (int i = 0; i < kRows; ++i) {
      dst[i * kLanes + lane] = low[i];
      dst[i * kLanes + lane + kHalf] = high[i];
    }
  }
}

// Any number of rows.
template <TileProduct kProduct>
HOST_DEVICE void tile_multiply(float* dst, const float* a, const float* b, int64_t rows,
                               int64_t depth) {
  constexpr int kBlock = 8;
  int64_t m = 0;
  for (; m + kBlock <= rows; m += kBlock)
    tile_rows<kProduct, kBlock>(dst + m * kLanes, a + m * kProduct.a_row, b, depth);
  for (; m < rows; ++m) tile_rows<kProduct, 1>(dst + m * kLanes, a + m * kProduct.a_row, b, depth);
}

// dst[i] = rows[first + i] as f32.
template <class T>
HOST_DEVICE void load_rows(HeadRows<const T> rows, int64_t first, int64_t count, int64_t cols,
                           float* dst) {
  for (int64_t i = 0; i < count; ++i) {
    const T* x = rows[first + i];
    float* y = dst + i * kTileStride;
    each(SerialGroup{}, cols, [=](int64_t c) { y[c] = float(x[c]); });
  }
}

// dst[c][lane] = rows[first + lane][c], 0 in lanes behind `count`.
template <class T>
HOST_DEVICE void load_lanes(HeadRows<const T> rows, int64_t first, int64_t count, int64_t cols,
                            float* dst) {
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const T* x = rows[first + (lane < count ? lane : 0)];
    for (int64_t c = 0; c < cols; ++c) dst[c * kLanes + lane] = lane < count ? float(x[c]) : 0.0f;
  }
}
template <class T>
HOST_DEVICE void store_lanes(const float* src, HeadRows<T> rows, int64_t first, int64_t count,
                             int64_t cols) {
  for (int64_t lane = 0; lane < count; ++lane) {
    T* y = rows[first + lane];
    for (int64_t c = 0; c < cols; ++c) y[c] = T(src[c * kLanes + lane]);
  }
}

}  // namespace kernels
