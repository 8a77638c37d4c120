// Attention that never stores the matrix of scores: softmax(scale · Q Kᵀ) V with a running maximum
// (Milakov and Gimelshein 2018; Dao et al. 2022), and its gradient. One token and head a group: the
// plain form, for every executor; attention_tile.h is the fast one of the host.
#pragma once
#include "kernels/random.h"
#include "kernels/softmax.h"
#include "kernels/view.h"

namespace kernels {

// Queries, keys and values of `sequences` sequences of equal length. Token t of sequence s stands
// in row s · (rows / sequences) + t, or with `token_major` in row t · sequences + s. A key matrix
// may have spare rows behind the `keys` used (a cache). Causal: the last query sees the last key.
struct AttentionShape {
  int64_t sequences = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // divides heads; query heads h share key head h / (heads / kv_heads)
  int64_t head_dim = 0;
  double scale = 1;
  bool causal = true;
  bool token_major = false;
  // Rows of its map are (sequence · heads + head) · queries + query, columns are keys.
  Dropout dropout;
};

// The rows of one operand that belong to one head of one sequence.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride;
  HOST_DEVICE T* operator[](int64_t token) const { return data + token * stride; }
};

// What all attention kernels share: operands, shape and where things stand.
template <class T>
struct AttentionOperands {
  using A = Arithmetic<T>;
  AttentionShape shape;
  int64_t query_rows, key_rows;  // rows / sequences
  Rows<const T> query;           // [sequences · queries, heads · head_dim]
  Rows<const T> key, value;      // [sequences · keys, kv_heads · head_dim]

  HOST_DEVICE int64_t group_size() const { return shape.heads / shape.kv_heads; }
  HOST_DEVICE Visible visible() const { return {shape.queries, shape.keys, shape.causal}; }
  // Queries of one head: `matrix` is laid out as the queries (also outputs and their gradients).
  template <class U>
  HOST_DEVICE HeadRows<U> of_head(Rows<U> matrix, int64_t sequence, int64_t head) const {
    return slice(matrix, sequence, head, query_rows);
  }
  template <class U>
  HOST_DEVICE HeadRows<U> of_kv_head(Rows<U> matrix, int64_t sequence, int64_t head) const {
    return slice(matrix, sequence, head, key_rows);
  }
  HOST_DEVICE DropoutRow dropout_of(int64_t row) const {
    return dropout_row(shape.dropout, shape.dropout.rows(row));
  }

 private:
  template <class U>
  HOST_DEVICE HeadRows<U> slice(Rows<U> matrix, int64_t sequence, int64_t head,
                                int64_t per_sequence) const {
    const int64_t first = shape.token_major ? sequence : sequence * per_sequence;
    const int64_t step = shape.token_major ? shape.sequences : 1;
    return {matrix[first] + head * shape.head_dim, step * matrix.stride};
  }
};

template <class T, Group G>
HOST_DEVICE Arithmetic<T> dot(const G& group, const T* a, const T* b, int64_t n) {
  using A = Arithmetic<T>;
  return sum_each<A>(group, n, [&](int64_t c) { return A(a[c]) * A(b[c]); });
}

// One query and head a group: out and log_sum = ln Σ exp(scale · q·k).
template <class T>
struct AttentionForward {
  using A = Arithmetic<T>;
  static constexpr int64_t kMaxHeadDim = 1024;
  AttentionOperands<T> in;
  Rows<T> out;
  Rows<A> log_sum;  // [sequences · heads, queries]

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const AttentionShape& shape = in.shape;
    const int64_t query = row % shape.queries;
    const int64_t head = row / shape.queries % shape.heads;
    const int64_t sequence = row / shape.queries / shape.heads;
    const T* q = in.of_head(in.query, sequence, head)[query];
    T* y = in.of_head(out, sequence, head)[query];
    const auto k = in.of_kv_head(in.key, sequence, head / in.group_size());
    const auto v = in.of_kv_head(in.value, sequence, head / in.group_size());
    const DropoutRow drop = in.dropout_of(row);

    // Thread r of the group keeps the columns r, r + size, … of the sum, in this order.
    A sums[kMaxHeadDim / G::kLeastSize];
    A top = -std::numeric_limits<A>::infinity();
    A total = 0;
    const int64_t own = (shape.head_dim - group.rank() + group.size() - 1) / group.size();
    for (int64_t i = 0; i < own; ++i) sums[i] = 0;
    const int64_t visible = in.visible()(row);
    for (int64_t j = 0; j < visible; ++j) {
      const A score = A(shape.scale) * dot(group, q, k[j], shape.head_dim);
      const A new_top = larger(top, score);
      const A rescale = exponential(top - new_top);
      const A weight = exponential(score - new_top);
      const A kept = shape.dropout.active() ? weight * A(drop.factor(j)) : weight;
      top = new_top;
      total = total * rescale + weight;
      const T* vj = v[j] + group.rank();
      for (int64_t i = 0; i < own; ++i)
        sums[i] = sums[i] * rescale + kept * A(vj[i * group.size()]);
    }
    for (int64_t i = 0; i < own; ++i)
      y[group.rank() + i * group.size()] = T(total > 0 ? sums[i] / total : A(0));
    if (group.rank() == 0) log_sum[sequence * shape.heads + head][query] = top + logarithm(total);
  }
};

// What the backward kernels read besides the operands.
template <class T>
struct AttentionGradients {
  using A = Arithmetic<T>;
  Rows<const T> out, grad_out;
  Rows<const A> log_sum;
};

// dS of one query and key: p · (dropout(grad_out · v) - out · grad_out), with p = exp(score -
// log_sum); also the weight dropout(p) that goes with v.
template <class A>
struct ScoreGradient {
  A weight, score;
};
template <class T, Group G>
HOST_DEVICE ScoreGradient<Arithmetic<T>> score_gradient(const G& group, const AttentionShape& shape,
                                                        const T* q, const T* k, const T* v,
                                                        const T* dy, Arithmetic<T> log_sum,
                                                        Arithmetic<T> along, float factor) {
  using A = Arithmetic<T>;
  const A p = exponential(A(shape.scale) * dot(group, q, k, shape.head_dim) - log_sum);
  const A dp = A(factor) * dot(group, dy, v, shape.head_dim);
  return {p * A(factor), A(shape.scale) * p * (dp - along)};
}

// One query and head a group: grad_query = Σ_keys dS · k.
template <class T>
struct AttentionBackwardQuery {
  using A = Arithmetic<T>;
  AttentionOperands<T> in;
  AttentionGradients<T> saved;
  Rows<T> grad_query;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const AttentionShape& shape = in.shape;
    const int64_t query = row % shape.queries;
    const int64_t head = row / shape.queries % shape.heads;
    const int64_t sequence = row / shape.queries / shape.heads;
    const T* q = in.of_head(in.query, sequence, head)[query];
    const T* dy = in.of_head(saved.grad_out, sequence, head)[query];
    T* dq = in.of_head(grad_query, sequence, head)[query];
    const auto k = in.of_kv_head(in.key, sequence, head / in.group_size());
    const auto v = in.of_kv_head(in.value, sequence, head / in.group_size());
    const A log_sum = saved.log_sum[sequence * shape.heads + head][query];
    const A along = dot(group, in.of_head(saved.out, sequence, head)[query], dy, shape.head_dim);
    const DropoutRow drop = in.dropout_of(row);

    A sums[AttentionForward<T>::kMaxHeadDim / G::kLeastSize];
    const int64_t own = (shape.head_dim - group.rank() + group.size() - 1) / group.size();
    for (int64_t i = 0; i < own; ++i) sums[i] = 0;
    const int64_t visible = in.visible()(row);
    for (int64_t j = 0; j < visible; ++j) {
      const float factor = shape.dropout.active() ? drop.factor(j) : 1.0f;
      const A ds = score_gradient(group, shape, q, k[j], v[j], dy, log_sum, along, factor).score;
      const T* kj = k[j] + group.rank();
      for (int64_t i = 0; i < own; ++i) sums[i] += ds * A(kj[i * group.size()]);
    }
    for (int64_t i = 0; i < own; ++i) dq[group.rank() + i * group.size()] = T(sums[i]);
  }
};

// One key and key head a group: grad_value = Σ_queries dropout(p) · grad_out, grad_key = Σ dS · q.
template <class T>
struct AttentionBackwardKey {
  using A = Arithmetic<T>;
  AttentionOperands<T> in;
  AttentionGradients<T> saved;
  Rows<T> grad_key, grad_value;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const AttentionShape& shape = in.shape;
    const int64_t token = row % shape.keys;
    const int64_t kv_head = row / shape.keys % shape.kv_heads;
    const int64_t sequence = row / shape.keys / shape.kv_heads;
    const T* k = in.of_kv_head(in.key, sequence, kv_head)[token];
    const T* v = in.of_kv_head(in.value, sequence, kv_head)[token];
    T* dk = in.of_kv_head(grad_key, sequence, kv_head)[token];
    T* dv = in.of_kv_head(grad_value, sequence, kv_head)[token];
    constexpr int64_t kMostOwn = AttentionForward<T>::kMaxHeadDim / G::kLeastSize;
    A key_sums[kMostOwn], value_sums[kMostOwn];
    const int64_t own = (shape.head_dim - group.rank() + group.size() - 1) / group.size();
    for (int64_t i = 0; i < own; ++i) key_sums[i] = value_sums[i] = 0;

    for (int64_t head = kv_head * in.group_size(); head < (kv_head + 1) * in.group_size(); ++head) {
      const auto q = in.of_head(in.query, sequence, head);
      const auto y = in.of_head(saved.out, sequence, head);
      const auto dy = in.of_head(saved.grad_out, sequence, head);
      for (int64_t i = 0; i < shape.queries; ++i) {
        const int64_t query_row = (sequence * shape.heads + head) * shape.queries + i;
        if (token >= in.visible()(query_row)) continue;
        const float factor = shape.dropout.active() ? in.dropout_of(query_row).factor(token) : 1.0f;
        const A log_sum = saved.log_sum[sequence * shape.heads + head][i];
        const A along = dot(group, y[i], dy[i], shape.head_dim);
        const auto d = score_gradient(group, shape, q[i], k, v, dy[i], log_sum, along, factor);
        for (int64_t n = 0; n < own; ++n) {
          const int64_t c = group.rank() + n * group.size();
          value_sums[n] += d.weight * A(dy[i][c]);
          key_sums[n] += d.score * A(q[i][c]);
        }
      }
    }
    for (int64_t n = 0; n < own; ++n) {
      dk[group.rank() + n * group.size()] = T(key_sums[n]);
      dv[group.rank() + n * group.size()] = T(value_sums[n]);
    }
  }
};

}  // namespace kernels
