// Shapes and operands of fused attention, and its definition on values in double.
#pragma once
#include "kernels/kernels.h"
#include "tests/support/matrix.h"
#include "tests/support/oracle.h"

namespace testing_support {

inline kernels::AttentionShape make_shape(int64_t sequences, int64_t queries, int64_t keys,
                                          int64_t heads, int64_t kv_heads, int64_t dim, bool causal,
                                          bool token_major, float p) {
  kernels::AttentionShape s{
      sequences, queries,     keys, heads, kv_heads, dim, 1 / std::sqrt(static_cast<double>(dim)),
      causal,    token_major, {}};
  s.dropout = {p, kernels::make_stream(1, kernels::Purpose::attention_dropout, 2, 3), {}, 0};
  return s;
}

// Attention by its definition, on values.
inline Values exact_attention(const Values& q, const Values& k, const Values& v,
                              const kernels::AttentionShape& s) {
  Values out(q.rows, q.cols);
  const int64_t key_rows = k.rows / s.sequences;
  for (int64_t b = 0; b < s.sequences; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      const auto row = [&](int64_t per_sequence) {
        return [=, &s](int64_t t) {
          return s.token_major ? t * s.sequences + b : b * per_sequence + t;
        };
      };
      const int64_t kv = h / (s.heads / s.kv_heads) * s.head_dim;
      const Values qh = oracle::part(q, s.queries, row(s.queries), h * s.head_dim, s.head_dim);
      const Values kh = oracle::part(k, s.keys, row(key_rows), kv, s.head_dim);
      const Values vh = oracle::part(v, s.keys, row(key_rows), kv, s.head_dim);
      Values weights =
          oracle::softmax(oracle::product(qh, false, kh, true), s.scale, s.causal, s.queries);
      for (int64_t i = 0; i < s.queries && s.dropout.active(); ++i) {
        const int64_t global = (b * s.heads + h) * s.queries + i;
        const auto drop = kernels::dropout_row(s.dropout, s.dropout.rows(global));
        for (int64_t j = 0; j < s.keys; ++j) weights(i, j) *= drop.factor(j);
      }
      const Values y = oracle::product(weights, false, vh, false);
      for (int64_t t = 0; t < s.queries; ++t)
        for (int64_t c = 0; c < s.head_dim; ++c) {
          // A query that sees no key has the output 0.
          const bool sees = !s.causal || t + s.keys >= s.queries;
          out(row(s.queries)(t), h * s.head_dim + c) = sees ? y(t, c) : 0;
        }
    }
  return out;
}

// The operands of one shape; `spare` rows of keys stand behind those used.
struct AttentionOperandSet {
  Matrix q, k, v, out, log_sum, dy, dq, dk, dv;
  AttentionOperandSet(const kernels::AttentionShape& s, DType type, DType stat, int64_t spare = 0)
      : q(Matrix::random(type, s.sequences * s.queries, s.heads * s.head_dim, 1)),
        k(Matrix::random(type, s.sequences * (s.keys + spare), s.kv_heads * s.head_dim, 2)),
        v(Matrix::random(type, s.sequences * (s.keys + spare), s.kv_heads * s.head_dim, 3)),
        out(type, q.rows(), q.cols()),
        log_sum(stat, s.sequences * s.heads, s.queries),
        dy(Matrix::random(type, q.rows(), q.cols(), 4)),
        dq(type, q.rows(), q.cols()),
        dk(type, k.rows(), k.cols()),
        dv(type, k.rows(), k.cols()) {}
  // The same values in f64.
  AttentionOperandSet exact(const kernels::AttentionShape& s) const {
    AttentionOperandSet e(s, DType::f64, DType::f64, k.rows() / s.sequences - s.keys);
    e.q = Matrix(DType::f64, q.values());
    e.k = Matrix(DType::f64, k.values());
    e.v = Matrix(DType::f64, v.values());
    e.dy = Matrix(DType::f64, dy.values());
    return e;
  }
  void forward(kernels::Kernels& kernels, const kernels::AttentionShape& s) {
    kernels.attention_forward(q, k, v, out, log_sum, s);
  }
  void backward(kernels::Kernels& kernels, const kernels::AttentionShape& s) {
    kernels.attention_backward(q, k, v, out, log_sum, dy, dq, dk, dv, s);
  }
};

}  // namespace testing_support
