// Attention in tiles of 64 × 64 for one host thread: the kernels of attention.h, blocked so that
// the products run at the speed of a matrix library and stay in the cache.
//
// A tile keeps 64 queries (or, for the gradients of keys, 64 keys) side by side as vector lanes, so
// that softmax needs no sums across a vector and no matrix has to be transposed but the one that
// stays put. Everything inside a tile is f32.
#pragma once
#include "kernels/attention.h"

namespace kernels {

constexpr int64_t kLanes = 64;         // tokens side by side
constexpr int64_t kTileRows = 64;      // tokens that pass by in one step
constexpr int64_t kTileHeadDim = 256;  // largest head_dim of the tile kernels

// Floats from one token of a row tile to the next: constant, as GCC's vectoriser of outer loops
// asks, and no power of two, so that tokens do not compete for the same lines of the cache.
constexpr int64_t kTileStride = kTileHeadDim + 16;

// How a row tile [tokens, head_dim] enters a product: its tokens are the rows of the result, or
// they are what is summed over.
enum class TileRole : uint8_t { rows, depth };

// dst[m][lane] (+)= Σ_k a(m, k) · b[k][lane] for kRows values of m; a(m, k) is element k of token
// m, or element m of token k. Sets dst where tokens are rows, adds where they are summed. depth >
// 0.
template <int kRows, TileRole kRole>
HOST_DEVICE void tile_rows(float* dst, const float* a, const float* b, int64_t depth) {
  constexpr bool kSummed = kRole == TileRole::depth;
  KERNELS_SIMD
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    float sums[kRows];
    for (int i = 0; i < kRows; ++i) sums[i] = kSummed ? dst[i * kLanes + lane] : 0;
    int64_t k = 0;
    do {  // a loop known to run once lets GCC vectorise the loop around it
      const float element = b[k * kLanes + lane];
      for (int i = 0; i < kRows; ++i)
        sums[i] += (kSummed ? a[k * kTileStride + i] : a[i * kTileStride + k]) * element;
    } while (++k < depth);
    for (int i = 0; i < kRows; ++i) dst[i * kLanes + lane] = sums[i];
  }
}

// The same for any number of rows.
template <TileRole kRole>
HOST_DEVICE void tile_multiply(float* dst, const float* a, const float* b, int64_t rows,
                               int64_t depth) {
  constexpr int kBlock = 8;
  constexpr int64_t kStep = kRole == TileRole::depth ? 1 : kTileStride;
  int64_t m = 0;
  for (; m + kBlock <= rows; m += kBlock)
    tile_rows<kBlock, kRole>(dst + m * kLanes, a + m * kStep, b, depth);
  for (; m < rows; ++m) tile_rows<1, kRole>(dst + m * kLanes, a + m * kStep, b, depth);
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
      tile_multiply<TileRole::rows>(scores, row_tile, query, count, dim);
      online_softmax(at, first, count, scores, top, total, sums);
      load_rows(v, first, count, dim, row_tile);
      tile_multiply<TileRole::depth>(sums, row_tile, scores, dim, count);
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

// scores → dS and, in `weights`, the dropped-out probabilities; `grads` = grad_out · vᵀ. `hidden`
// says whether lane `lane` and passing row `j` do not see each other; log_sum, along by lane or
// row.
struct TileGradient {
  float scale;

  template <class H, class L, class D, class F>
  HOST_DEVICE void operator()(int64_t j, float* scores, float* grads, H hidden, L log_sum, D along,
                              F factor) const {
    float* s = scores + j * kLanes;
    float* g = grads + j * kLanes;
    KERNELS_SIMD
    for (int32_t lane = 0; lane < static_cast<int32_t>(kLanes); ++lane) {
      const float power = exponential(s[lane] * scale - log_sum(lane));
      const float p = hidden(lane) ? 0.0f : power;
      const float f = factor(lane);
      const float ds = scale * p * (f * g[lane] - along(lane));
      s[lane] = p * f;
      g[lane] = ds;
    }
  }
};

// Σ_c out · grad_out of `count` tokens.
template <class T>
HOST_DEVICE void dot_rows(HeadRows<const T> a, HeadRows<const T> b, int64_t first, int64_t count,
                          int64_t dim, float* dst) {
  for (int64_t i = 0; i < count; ++i) dst[i] = dot(SerialGroup{}, a[first + i], b[first + i], dim);
}

// The gradient of 64 queries of one head an item.
template <class T>
struct AttentionTileBackwardQuery {
  AttentionOperands<T> in;
  AttentionGradients<T> saved;
  Rows<T> grad_query;

  HOST_DEVICE void operator()(const SerialGroup&, int64_t item) const {
    const AttentionShape& shape = in.shape;
    const TileItem at(item, shape.heads, shape.queries);
    const int64_t dim = shape.head_dim;
    const auto k = in.of_kv_head(in.key, at.sequence, at.head / in.group_size());
    const auto v = in.of_kv_head(in.value, at.sequence, at.head / in.group_size());
    const auto dy = in.of_head(saved.grad_out, at.sequence, at.head);
    alignas(64) float query[kTileHeadDim * kLanes], grad_out[kTileHeadDim * kLanes];
    alignas(64) float sums[kTileHeadDim * kLanes], row_tile[kTileRows * kTileStride];
    alignas(64) float scores[kTileRows * kLanes], grads[kTileRows * kLanes],
        factors[kTileRows * kLanes];
    alignas(64) float along[kLanes] = {}, log_sum[kLanes] = {};
    load_lanes(in.of_head(in.query, at.sequence, at.head), at.first, at.count, dim, query);
    load_lanes(dy, at.first, at.count, dim, grad_out);
    dot_rows(in.of_head(saved.out, at.sequence, at.head), dy, at.first, at.count, dim, along);
    const float* log_sums = saved.log_sum[at.sequence * shape.heads + at.head] + at.first;
    for (int64_t lane = 0; lane < at.count; ++lane) log_sum[lane] = log_sums[lane];
    for (int64_t i = 0; i < dim * kLanes; ++i) sums[i] = 0;

    const int64_t visible = in.visible()(at.first + at.count - 1);
    const int64_t shift = at.first + shape.keys - shape.queries;
    for (int64_t first = 0; first < visible; first += kTileRows) {
      const int64_t count = smaller(kTileRows, visible - first);
      load_rows(v, first, count, dim, row_tile);
      tile_multiply<TileRole::rows>(grads, row_tile, grad_out, count, dim);
      load_rows(k, first, count, dim, row_tile);
      tile_multiply<TileRole::rows>(scores, row_tile, query, count, dim);
      load_factors(at, first, count, factors);
      for (int64_t j = 0; j < count; ++j) {
        const int32_t hidden = shape.causal ? static_cast<int32_t>(first + j - shift) : 0;
        TileGradient{static_cast<float>(shape.scale)}(
            j, scores, grads, [=](int32_t lane) { return lane < hidden; },
            [&](int32_t lane) { return log_sum[lane]; }, [&](int32_t lane) { return along[lane]; },
            [&](int32_t lane) { return factors[j * kLanes + lane]; });
      }
      tile_multiply<TileRole::depth>(sums, row_tile, grads, dim, count);
    }
    store_lanes(sums, in.of_head(grad_query, at.sequence, at.head), at.first, at.count, dim);
  }

 private:
  HOST_DEVICE void load_factors(const TileItem& at, int64_t first, int64_t count,
                                float* factors) const {
    for (int64_t i = 0; i < count * kLanes; ++i) factors[i] = 1;
    if (!in.shape.dropout.active()) return;
    const int64_t row = (at.sequence * in.shape.heads + at.head) * in.shape.queries + at.first;
    for (int64_t lane = 0; lane < at.count; ++lane) {
      const DropoutRow numbers = in.dropout_of(row + lane);
      for (int64_t j = 0; j < count; ++j) factors[j * kLanes + lane] = numbers.factor(first + j);
    }
  }
};

// The gradients of 64 keys and values of one key head an item.
template <class T>
struct AttentionTileBackwardKey {
  AttentionOperands<T> in;
  AttentionGradients<T> saved;
  Rows<T> grad_key, grad_value;

  HOST_DEVICE void operator()(const SerialGroup&, int64_t item) const {
    const AttentionShape& shape = in.shape;
    const TileItem at(item, shape.kv_heads, shape.keys);
    const int64_t dim = shape.head_dim;
    alignas(64) float key[kTileHeadDim * kLanes], value[kTileHeadDim * kLanes];
    alignas(64) float key_sums[kTileHeadDim * kLanes], value_sums[kTileHeadDim * kLanes];
    load_lanes(in.of_kv_head(in.key, at.sequence, at.head), at.first, at.count, dim, key);
    load_lanes(in.of_kv_head(in.value, at.sequence, at.head), at.first, at.count, dim, value);
    for (int64_t i = 0; i < dim * kLanes; ++i) key_sums[i] = value_sums[i] = 0;
    for (int64_t head = at.head * in.group_size(); head < (at.head + 1) * in.group_size(); ++head)
      add_head(at, head, key, value, key_sums, value_sums);
    store_lanes(key_sums, in.of_kv_head(grad_key, at.sequence, at.head), at.first, at.count, dim);
    store_lanes(value_sums, in.of_kv_head(grad_value, at.sequence, at.head), at.first, at.count,
                dim);
  }

 private:
  HOST_DEVICE void add_head(const TileItem& at, int64_t head, const float* key, const float* value,
                            float* key_sums, float* value_sums) const {
    const AttentionShape& shape = in.shape;
    const int64_t dim = shape.head_dim;
    const auto q = in.of_head(in.query, at.sequence, head);
    const auto y = in.of_head(saved.out, at.sequence, head);
    const auto dy = in.of_head(saved.grad_out, at.sequence, head);
    const float* log_sum = saved.log_sum[at.sequence * shape.heads + head];
    alignas(64) float query[kTileRows * kTileStride], grad_out[kTileRows * kTileStride];
    alignas(64) float scores[kTileRows * kLanes], grads[kTileRows * kLanes], along[kTileRows];
    // Query i sees the keys up to i + shift.
    const int64_t shift = shape.keys - shape.queries;
    const int64_t start = shape.causal ? larger(int64_t{0}, at.first - shift) : 0;
    for (int64_t first = start; first < shape.queries; first += kTileRows) {
      const int64_t count = smaller(kTileRows, shape.queries - first);
      load_rows(q, first, count, dim, query);
      load_rows(dy, first, count, dim, grad_out);
      tile_multiply<TileRole::rows>(scores, query, key, count, dim);
      tile_multiply<TileRole::rows>(grads, grad_out, value, count, dim);
      dot_rows(y, dy, first, count, dim, along);
      for (int64_t j = 0; j < count; ++j)
        gradient_row(at, head, first + j, j, scores, grads, log_sum[first + j], along[j]);
      tile_multiply<TileRole::depth>(value_sums, grad_out, scores, dim, count);
      tile_multiply<TileRole::depth>(key_sums, query, grads, dim, count);
    }
  }
  HOST_DEVICE void gradient_row(const TileItem& at, int64_t head, int64_t query, int64_t j,
                                float* scores, float* grads, float log_sum, float along) const {
    const AttentionShape& shape = in.shape;
    const int64_t row = (at.sequence * shape.heads + head) * shape.queries + query;
    const int32_t seen = static_cast<int32_t>(smaller(at.count, in.visible()(row) - at.first));
    const TileGradient gradient{static_cast<float>(shape.scale)};
    const auto hidden = [=](int32_t lane) { return lane >= seen; };
    const auto same_log_sum = [=](int32_t) { return log_sum; };
    const auto same_along = [=](int32_t) { return along; };
    if (shape.dropout.active()) {
      const DropoutRow numbers = in.dropout_of(row);
      const int64_t first = at.first;
      gradient(j, scores, grads, hidden, same_log_sum, same_along,
               [=](int32_t lane) { return numbers.factor(first + lane); });
    } else {
      gradient(j, scores, grads, hidden, same_log_sum, same_along, [](int32_t) { return 1.0f; });
    }
  }
};

}  // namespace kernels
