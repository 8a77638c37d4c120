// Attention in BasicKernels: softmax, fused attention, heads and rotary embedding.
#pragma once
#include <utility>

#include "kernels/basic_kernels.h"
#include "kernels/rotary.h"
#include "kernels/softmax.h"

namespace kernels {

// The attention operands, checked.
template <class T>
AttentionOperands<T> attention_operands(const Require& require, ConstView query, ConstView key,
                                        ConstView value, const AttentionShape& s) {
  require.that(s.sequences > 0 && s.queries > 0 && s.keys > 0, "the shape must not be empty")
      .that(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "kv_heads must divide heads")
      .that(s.head_dim > 0 && s.head_dim <= AttentionForward<T>::kMaxHeadDim,
            "head_dim must be 1 to 1024")
      .that(key.rows % s.sequences == 0 && key.rows >= s.sequences * s.keys,
            "key rows must be a multiple of the sequences and hold the keys")
      .shape(query, dtype_of<T>(), s.sequences * s.queries, s.heads * s.head_dim, "query")
      .shape(key, dtype_of<T>(), key.rows, s.kv_heads * s.head_dim, "key")
      .shape(value, dtype_of<T>(), key.rows, s.kv_heads * s.head_dim, "value");
  return {
      s, s.queries, key.rows / s.sequences, rows_of<T>(query), rows_of<T>(key), rows_of<T>(value)};
}

// The same and what the backward kernels read besides, checked.
template <class T>
std::pair<AttentionOperands<T>, AttentionGradients<T>> backward_operands(
    ConstView query, ConstView key, ConstView value, ConstView out, ConstView log_sum,
    ConstView grad_out, ConstView grad_query, ConstView grad_key, ConstView grad_value,
    const AttentionShape& s) {
  using A = Arithmetic<T>;
  const DType type = dtype_of<T>();
  const Require require("attention_backward");
  const auto in = attention_operands<T>(require, query, key, value, s);
  require.shape(out, type, query.rows, query.cols, "out")
      .shape(grad_out, type, query.rows, query.cols, "grad_out")
      .shape(log_sum, dtype_of<A>(), s.sequences * s.heads, s.queries, "log_sum")
      .shape(grad_query, type, query.rows, query.cols, "grad_query")
      .shape(grad_key, type, key.rows, key.cols, "grad_key")
      .shape(grad_value, type, key.rows, key.cols, "grad_value");
  return {in, {rows_of<T>(out), rows_of<T>(grad_out), rows_of<A>(log_sum)}};
}

template <class Launcher>
void BasicKernels<Launcher>::softmax_forward(ConstView scores, View dst, int64_t queries,
                                             bool causal, double scale) {
  with_type("softmax_forward", scores.type, [&]<class T>() {
    Require("softmax_forward")
        .that(queries > 0 && scores.rows % queries == 0, "queries must divide the rows")
        .shape(dst, dtype_of<T>(), scores.rows, scores.cols, "dst");
    launch<T>(scores.rows, scores.cols,
              SoftmaxForward<T>{rows_of<T>(scores), rows_of<T>(dst), scale,
                                Visible{queries, scores.cols, causal}});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::softmax_backward(ConstView grad_dst, ConstView probs, View grad_scores,
                                              int64_t queries, bool causal, double scale,
                                              const Dropout& dropout) {
  with_type("softmax_backward", probs.type, [&]<class T>() {
    Require("softmax_backward")
        .that(queries > 0 && probs.rows % queries == 0, "queries must divide the rows")
        .shape(grad_dst, dtype_of<T>(), probs.rows, probs.cols, "grad_dst")
        .shape(grad_scores, dtype_of<T>(), probs.rows, probs.cols, "grad_scores");
    launch<T>(probs.rows, probs.cols,
              SoftmaxBackward<T>{rows_of<T>(grad_dst), rows_of<T>(probs), rows_of<T>(grad_scores),
                                 scale, Visible{queries, probs.cols, causal}, dropout});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::attention_forward(ConstView query, ConstView key, ConstView value,
                                               View out, View log_sum, const AttentionShape& s) {
  with_type("attention_forward", query.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const Require require("attention_forward");
    const auto in = attention_operands<T>(require, query, key, value, s);
    require.shape(out, dtype_of<T>(), query.rows, query.cols, "out")
        .shape(log_sum, dtype_of<A>(), s.sequences * s.heads, s.queries, "log_sum");
    launch<T>(s.sequences * s.heads * s.queries, s.keys * s.head_dim,
              AttentionForward<T>{in, rows_of<T>(out), rows_of<A>(log_sum)});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::attention_backward(ConstView query, ConstView key, ConstView value,
                                                ConstView out, ConstView log_sum,
                                                ConstView grad_out, View grad_query, View grad_key,
                                                View grad_value, const AttentionShape& s) {
  with_type("attention_backward", query.type, [&]<class T>() {
    const auto [in, saved] = backward_operands<T>(query, key, value, out, log_sum, grad_out,
                                                  grad_query, grad_key, grad_value, s);
    launch<T>(s.sequences * s.heads * s.queries, s.keys * s.head_dim,
              AttentionBackwardQuery<T>{in, saved, rows_of<T>(grad_query)});
    launch<T>(s.sequences * s.kv_heads * s.keys, s.queries * s.head_dim,
              AttentionBackwardKey<T>{in, saved, rows_of<T>(grad_key), rows_of<T>(grad_value)});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::paged_attention(ConstView query, ConstView key, ConstView value,
                                             ConstView tables, ConstView sequences,
                                             ConstView visible, View out, const PagedShape& s) {
  with_type("paged_attention", query.type, [&]<class T>() {
    const DType type = dtype_of<T>();
    Require("paged_attention")
        .that(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "kv_heads must divide heads")
        .that(s.head_dim > 0 && s.head_dim <= AttentionForward<T>::kMaxHeadDim,
              "head_dim must be 1 to 1024")
        .that(s.page_tokens > 0 && s.page_tokens <= PagedShape::kMaxPageTokens,
              "page_tokens must be 1 to 64")
        .shape(query, type, query.rows, s.heads * s.head_dim, "query")
        .shape(key, type, key.rows, s.kv_heads * s.head_dim, "key")
        .shape(value, type, key.rows, s.kv_heads * s.head_dim, "value")
        .shape(tables, DType::i32, tables.rows, tables.cols, "tables")
        .shape(sequences, DType::i32, 1, query.rows, "sequences")
        .shape(visible, DType::i32, 1, query.rows, "visible")
        .shape(out, type, query.rows, query.cols, "out");
    launch<T>(query.rows * s.heads, tables.cols * s.page_tokens * s.head_dim,
              PagedAttention<T>{s, rows_of<T>(query), rows_of<T>(key), rows_of<T>(value),
                                rows_of<int32_t>(tables), rows_of<int32_t>(sequences),
                                rows_of<int32_t>(visible), rows_of<T>(out), tables.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::scatter_rows(ConstView src, ConstView rows, View dst) {
  with_type("scatter_rows", src.type, [&]<class T>() {
    Require("scatter_rows")
        .shape(rows, DType::i32, 1, src.rows, "rows")
        .shape(dst, dtype_of<T>(), dst.rows, src.cols, "dst");
    launch<T>(src.rows, src.cols,
              ScatterRows<T>{rows_of<T>(src), rows_of<int32_t>(rows), rows_of<T>(dst), src.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::permute_heads(std::string_view op, ConstView src, View dst,
                                           const HeadLayout& l, bool merge) {
  with_type(op, src.type, [&]<class T>() {
    launch<T>(l.sequences * l.heads * l.tokens, l.head_dim,
              PermuteHeads<T>{rows_of<T>(src), rows_of<T>(dst), l.sequences, l.tokens, l.heads,
                              l.head_dim, l.token_major, merge});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::split_heads(ConstView src, View dst, const HeadLayout& l) {
  Require("split_heads")
      .shape(src, dst.type, l.sequences * l.tokens, l.heads * l.head_dim, "src")
      .shape(dst, src.type, l.sequences * l.heads * l.tokens, l.head_dim, "dst");
  permute_heads("split_heads", src, dst, l, false);
}

template <class Launcher>
void BasicKernels<Launcher>::merge_heads(ConstView src, View dst, const HeadLayout& l) {
  Require("merge_heads")
      .shape(src, dst.type, l.sequences * l.heads * l.tokens, l.head_dim, "src")
      .shape(dst, src.type, l.sequences * l.tokens, l.heads * l.head_dim, "dst");
  permute_heads("merge_heads", src, dst, l, true);
}

template <class Launcher>
void BasicKernels<Launcher>::rotary_table(View table, double base) {
  Require("rotary_table").that(table.cols % 2 == 0, "the rotated part of a head must be even");
  if (table.type == DType::f64)
    launch<double>(table.rows, table.cols,
                   RotaryTable<double>{rows_of<double>(table), table.cols, base});
  else
    launch<float>(table.rows, table.cols,
                  RotaryTable<float>{rows_of<float>(table), table.cols, base});
}

template <class Launcher>
void BasicKernels<Launcher>::rotary(View data, ConstView table, ConstView positions, int64_t heads,
                                    bool backward) {
  with_type("rotary", data.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("rotary")
        .that(heads > 0 && data.cols % heads == 0, "heads must divide the columns")
        .that(table.cols % 2 == 0 && table.cols <= data.cols / heads,
              "the table must be even and at most as wide as a head")
        .shape(table, dtype_of<A>(), table.rows, table.cols, "table")
        .shape(positions, DType::i32, 1, data.rows, "positions");
    launch<T>(data.rows, data.cols,
              Rotary<T>{rows_of<T>(data), rows_of<A>(table), rows_of<int32_t>(positions), heads,
                        data.cols / heads, table.cols, backward ? A(-1) : A(1)});
  });
}

}  // namespace kernels
