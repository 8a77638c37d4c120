// BasicKernels: the op set for any launcher. Checks shapes, picks the type, launches.
//
// A launcher has
//   rows<T>(count, work, kernel)   runs kernel(group, i) for i in [0, count), in any order; `work`
//   is
//                                  about how many elements one call touches
//   column_block(cols)             how many columns a group takes in kernels that walk down columns
#pragma once
#include <utility>

#include "kernels/check.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/kernels.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/rotary.h"
#include "kernels/softmax.h"

namespace kernels {

template <class T>
Rows<T> rows_of(const View& view) {
  return {static_cast<T*>(view.data), view.stride};
}
template <class T>
Rows<const T> rows_of(const ConstView& view) {
  return {static_cast<const T*>(view.data), view.stride};
}

// Calls f.operator()<T>() for the type of the elements; rejects ids.
template <class F>
void with_type(std::string_view op, DType type, F f) {
  switch (type) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bfloat16>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::i32:
      break;
  }
  reject(op, "elements must be f32, bf16 or f64, not i32");
}
template <class F>
void with_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::gelu:
      return f.template operator()<Gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<GeluTanh>();
    case Activation::relu:
      return f.template operator()<Relu>();
    case Activation::silu:
      return f.template operator()<Silu>();
  }
}

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

template <class Launcher>
class BasicKernels : public Kernels {
 public:
  explicit BasicKernels(Launcher launcher) : launcher_(std::move(launcher)) {}

  void norm_forward(ConstView src, ConstView gain, ConstView bias, View dst, View mean, View rstd,
                    double epsilon) override {
    with_type("norm_forward", src.type, [&]<class T>() {
      using A = Arithmetic<T>;
      const DType type = dtype_of<T>(), stat = dtype_of<A>();
      Require("norm_forward")
          .shape(gain, type, 1, src.cols, "gain")
          .optional(bias, type, 1, src.cols, "bias")
          .shape(dst, type, src.rows, src.cols, "dst")
          .optional(mean, stat, 1, src.rows, "mean")
          .shape(rstd, stat, 1, src.rows, "rstd");
      launch<T>(src.rows, src.cols,
                NormForward<T>{rows_of<T>(src), rows_of<T>(gain), rows_of<T>(bias), rows_of<T>(dst),
                               rows_of<A>(mean), rows_of<A>(rstd), src.cols, epsilon});
    });
  }

  void norm_backward(ConstView grad_dst, ConstView src, ConstView gain, ConstView mean,
                     ConstView rstd, ConstView residual, View grad_src) override {
    with_type("norm_backward", src.type, [&]<class T>() {
      using A = Arithmetic<T>;
      const DType type = dtype_of<T>(), stat = dtype_of<A>();
      Require("norm_backward")
          .shape(grad_dst, type, src.rows, src.cols, "grad_dst")
          .shape(gain, type, 1, src.cols, "gain")
          .optional(mean, stat, 1, src.rows, "mean")
          .shape(rstd, stat, 1, src.rows, "rstd")
          .optional(residual, type, src.rows, src.cols, "residual")
          .shape(grad_src, type, src.rows, src.cols, "grad_src");
      launch<T>(src.rows, src.cols,
                NormBackward<T>{rows_of<T>(grad_dst), rows_of<T>(src), rows_of<T>(gain),
                                rows_of<T>(residual), rows_of<A>(mean), rows_of<A>(rstd),
                                rows_of<T>(grad_src), src.cols});
    });
  }

  void norm_parameter_gradients(ConstView grad_dst, ConstView src, ConstView mean, ConstView rstd,
                                View grad_gain, View grad_bias) override {
    with_type("norm_parameter_gradients", src.type, [&]<class T>() {
      using A = Arithmetic<T>;
      const DType stat = dtype_of<A>();
      Require("norm_parameter_gradients")
          .shape(grad_dst, dtype_of<T>(), src.rows, src.cols, "grad_dst")
          .optional(mean, stat, 1, src.rows, "mean")
          .shape(rstd, stat, 1, src.rows, "rstd")
          .shape(grad_gain, stat, 1, src.cols, "grad_gain")
          .optional(grad_bias, stat, 1, src.cols, "grad_bias");
      launch_columns<T>(src.rows, src.cols, [&](int64_t block) {
        return NormParameterGradients<T>{rows_of<T>(grad_dst),
                                         rows_of<T>(src),
                                         rows_of<A>(mean),
                                         rows_of<A>(rstd),
                                         rows_of<A>(grad_gain),
                                         rows_of<A>(grad_bias),
                                         src.rows,
                                         src.cols,
                                         block};
      });
    });
  }

  void bias_dropout_add(ConstView src, ConstView bias, ConstView residual, View dst,
                        const Dropout& dropout) override {
    with_type("bias_dropout_add", src.type, [&]<class T>() {
      const DType type = dtype_of<T>();
      Require("bias_dropout_add")
          .that(dropout.probability >= 0 && dropout.probability < 1,
                "probability must be in [0, 1)")
          .optional(bias, type, 1, src.cols, "bias")
          .optional(residual, type, src.rows, src.cols, "residual")
          .shape(dst, type, src.rows, src.cols, "dst");
      launch_tiles<T>(src,
                      BiasDropoutAdd<T>{rows_of<T>(src), rows_of<T>(bias), rows_of<T>(residual),
                                        rows_of<T>(dst), dropout, tiling(src)});
    });
  }

  void bias_activation_forward(ConstView src, ConstView bias, View dst, Activation f) override {
    with_type("bias_activation_forward", src.type, [&]<class T>() {
      Require("bias_activation_forward")
          .optional(bias, dtype_of<T>(), 1, src.cols, "bias")
          .shape(dst, dtype_of<T>(), src.rows, src.cols, "dst");
      with_activation(f, [&]<class F>() {
        launch_tiles<T>(src, BiasActivationForward<T, F>{rows_of<T>(src), rows_of<T>(bias),
                                                         rows_of<T>(dst), tiling(src)});
      });
    });
  }

  void bias_activation_backward(ConstView grad_dst, ConstView src, ConstView bias, View grad_src,
                                Activation f) override {
    with_type("bias_activation_backward", src.type, [&]<class T>() {
      const DType type = dtype_of<T>();
      Require("bias_activation_backward")
          .shape(grad_dst, type, src.rows, src.cols, "grad_dst")
          .optional(bias, type, 1, src.cols, "bias")
          .shape(grad_src, type, src.rows, src.cols, "grad_src");
      with_activation(f, [&]<class F>() {
        launch_tiles<T>(
            src, BiasActivationBackward<T, F>{rows_of<T>(grad_dst), rows_of<T>(src),
                                              rows_of<T>(bias), rows_of<T>(grad_src), tiling(src)});
      });
    });
  }

  void gated_forward(ConstView gate, ConstView up, View dst, Activation f) override {
    with_type("gated_forward", gate.type, [&]<class T>() {
      Require("gated_forward")
          .shape(up, dtype_of<T>(), gate.rows, gate.cols, "up")
          .shape(dst, dtype_of<T>(), gate.rows, gate.cols, "dst");
      with_activation(f, [&]<class F>() {
        launch_tiles<T>(gate, GatedForward<T, F>{rows_of<T>(gate), rows_of<T>(up), rows_of<T>(dst),
                                                 tiling(gate)});
      });
    });
  }

  void gated_backward(ConstView grad_dst, ConstView gate, ConstView up, View grad_gate,
                      View grad_up, Activation f) override {
    with_type("gated_backward", gate.type, [&]<class T>() {
      const DType type = dtype_of<T>();
      Require("gated_backward")
          .shape(grad_dst, type, gate.rows, gate.cols, "grad_dst")
          .shape(up, type, gate.rows, gate.cols, "up")
          .shape(grad_gate, type, gate.rows, gate.cols, "grad_gate")
          .shape(grad_up, type, gate.rows, gate.cols, "grad_up");
      with_activation(f, [&]<class F>() {
        launch_tiles<T>(
            gate, GatedBackward<T, F>{rows_of<T>(grad_dst), rows_of<T>(gate), rows_of<T>(up),
                                      rows_of<T>(grad_gate), rows_of<T>(grad_up), tiling(gate)});
      });
    });
  }

  void softmax_forward(ConstView scores, View dst, int64_t queries, bool causal,
                       double scale) override {
    with_type("softmax_forward", scores.type, [&]<class T>() {
      Require("softmax_forward")
          .that(queries > 0 && scores.rows % queries == 0, "queries must divide the rows")
          .shape(dst, dtype_of<T>(), scores.rows, scores.cols, "dst");
      launch<T>(scores.rows, scores.cols,
                SoftmaxForward<T>{rows_of<T>(scores), rows_of<T>(dst), scale,
                                  Visible{queries, scores.cols, causal}});
    });
  }

  void softmax_backward(ConstView grad_dst, ConstView probs, View grad_scores, int64_t queries,
                        bool causal, double scale, const Dropout& dropout) override {
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

  void attention_forward(ConstView query, ConstView key, ConstView value, View out, View log_sum,
                         const AttentionShape& s) override {
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

  void attention_backward(ConstView query, ConstView key, ConstView value, ConstView out,
                          ConstView log_sum, ConstView grad_out, View grad_query, View grad_key,
                          View grad_value, const AttentionShape& s) override {
    with_type("attention_backward", query.type, [&]<class T>() {
      const auto [in, saved] = backward_operands<T>(query, key, value, out, log_sum, grad_out,
                                                    grad_query, grad_key, grad_value, s);
      launch<T>(s.sequences * s.heads * s.queries, s.keys * s.head_dim,
                AttentionBackwardQuery<T>{in, saved, rows_of<T>(grad_query)});
      launch<T>(s.sequences * s.kv_heads * s.keys, s.queries * s.head_dim,
                AttentionBackwardKey<T>{in, saved, rows_of<T>(grad_key), rows_of<T>(grad_value)});
    });
  }

  void split_heads(ConstView src, View dst, const HeadLayout& l) override {
    Require("split_heads")
        .shape(src, dst.type, l.sequences * l.tokens, l.heads * l.head_dim, "src")
        .shape(dst, src.type, l.sequences * l.heads * l.tokens, l.head_dim, "dst");
    permute_heads("split_heads", src, dst, l, false);
  }
  void merge_heads(ConstView src, View dst, const HeadLayout& l) override {
    Require("merge_heads")
        .shape(src, dst.type, l.sequences * l.heads * l.tokens, l.head_dim, "src")
        .shape(dst, src.type, l.sequences * l.tokens, l.heads * l.head_dim, "dst");
    permute_heads("merge_heads", src, dst, l, true);
  }

  void rotary_table(View table, double base) override {
    Require("rotary_table").that(table.cols % 2 == 0, "the rotated part of a head must be even");
    if (table.type == DType::f64)
      launch<double>(table.rows, table.cols,
                     RotaryTable<double>{rows_of<double>(table), table.cols, base});
    else
      launch<float>(table.rows, table.cols,
                    RotaryTable<float>{rows_of<float>(table), table.cols, base});
  }

  void rotary(View data, ConstView table, ConstView positions, int64_t heads,
              bool backward) override {
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

  void embedding_forward(ConstView table, int64_t first, ConstView ids, View dst,
                         bool add) override {
    with_type("embedding_forward", table.type, [&]<class T>() {
      Require("embedding_forward")
          .shape(ids, DType::i32, 1, dst.rows, "ids")
          .shape(dst, dtype_of<T>(), dst.rows, table.cols, "dst");
      launch<T>(dst.rows, dst.cols,
                EmbeddingForward<T>{rows_of<T>(table), rows_of<int32_t>(ids), rows_of<T>(dst),
                                    first, table.rows, table.cols, add});
    });
  }

  void embedding_backward(ConstView grad_dst, ConstView ids, int64_t first,
                          View grad_table) override {
    with_type("embedding_backward", grad_dst.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("embedding_backward")
          .shape(ids, DType::i32, 1, grad_dst.rows, "ids")
          .shape(grad_table, dtype_of<A>(), grad_table.rows, grad_dst.cols, "grad_table");
      launch_columns<T>(grad_dst.rows, grad_dst.cols, [&](int64_t block) {
        return EmbeddingBackward<T>{rows_of<T>(grad_dst),
                                    rows_of<int32_t>(ids),
                                    rows_of<A>(grad_table),
                                    grad_dst.rows,
                                    first,
                                    grad_table.rows,
                                    grad_dst.cols,
                                    block};
      });
    });
  }

  void row_max(ConstView src, View top) override {
    with_type("row_max", src.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("row_max").shape(top, dtype_of<A>(), 1, src.rows, "top");
      launch<T>(src.rows, src.cols, RowMax<T>{rows_of<T>(src), rows_of<A>(top), src.cols});
    });
  }

  void cross_entropy_sums(ConstView logits, ConstView top, ConstView targets, int64_t first,
                          View sums, View chosen) override {
    with_type("cross_entropy_sums", logits.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("cross_entropy_sums")
          .shape(top, dtype_of<A>(), 1, logits.rows, "top")
          .shape(targets, DType::i32, 1, logits.rows, "targets")
          .shape(sums, dtype_of<A>(), 1, logits.rows, "sums")
          .shape(chosen, dtype_of<A>(), 1, logits.rows, "chosen");
      launch<T>(logits.rows, logits.cols,
                CrossEntropySums<T>{rows_of<T>(logits), rows_of<A>(top), rows_of<int32_t>(targets),
                                    rows_of<A>(sums), rows_of<A>(chosen), first, logits.cols});
    });
  }

  void cross_entropy_losses(ConstView sums, ConstView chosen, ConstView targets,
                            View losses) override {
    with_type("cross_entropy_losses", sums.type, [&]<class T>() {
      using A = Arithmetic<T>;
      const DType type = dtype_of<A>();
      Require("cross_entropy_losses")
          .shape(sums, type, 1, sums.cols, "sums")
          .shape(chosen, type, 1, sums.cols, "chosen")
          .shape(targets, DType::i32, 1, sums.cols, "targets")
          .shape(losses, type, 1, sums.cols, "losses");
      launch<A>(1, sums.cols,
                CrossEntropyLoss<A>{rows_of<A>(sums), rows_of<A>(chosen), rows_of<int32_t>(targets),
                                    rows_of<A>(losses), sums.cols});
    });
  }

  void cross_entropy_backward(View logits, ConstView top, ConstView sums, ConstView targets,
                              int64_t first, double factor) override {
    with_type("cross_entropy_backward", logits.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("cross_entropy_backward")
          .shape(top, dtype_of<A>(), 1, logits.rows, "top")
          .shape(sums, dtype_of<A>(), 1, logits.rows, "sums")
          .shape(targets, DType::i32, 1, logits.rows, "targets");
      launch<T>(logits.rows, logits.cols,
                CrossEntropyBackward<T>{rows_of<T>(logits), rows_of<A>(top), rows_of<A>(sums),
                                        rows_of<int32_t>(targets), first, logits.cols, factor});
    });
  }

  void adam(ConstView gradient, View master, View mean, View square, View weights,
            const AdamStep& step) override {
    with_type("adam", weights.empty() ? master.type : weights.type, [&]<class T>() {
      using A = Arithmetic<T>;
      const DType type = dtype_of<A>();
      const int64_t rows = gradient.rows, cols = gradient.cols;
      Require("adam")
          .that(step.step > 0, "the first step is step 1")
          .shape(gradient, type, rows, cols, "gradient")
          .shape(master, type, rows, cols, "master")
          .shape(mean, type, rows, cols, "mean")
          .shape(square, type, rows, cols, "square")
          .optional(weights, dtype_of<T>(), rows, cols, "weights");
      launch_tiles<T>(gradient, Adam<T>{rows_of<A>(gradient), rows_of<A>(master), rows_of<A>(mean),
                                        rows_of<A>(square), rows_of<T>(weights),
                                        AdamCoefficients<A>(step), tiling(gradient)});
    });
  }

  void column_sum(ConstView src, View dst) override {
    with_type("column_sum", src.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("column_sum").shape(dst, dtype_of<A>(), 1, src.cols, "dst");
      launch_columns<T>(src.rows, src.cols, [&](int64_t block) {
        return ColumnSum<T>{rows_of<T>(src), rows_of<A>(dst), src.rows, src.cols, block};
      });
    });
  }

  void sum_of_squares(ConstView src, View partials) override {
    with_type("sum_of_squares", src.type, [&]<class T>() {
      Require("sum_of_squares")
          .that(src.contiguous(), "src must be contiguous")
          .shape(partials, DType::f64, 1, partials.cols, "partials");
      launch<T>(
          partials.cols, src.elements() / partials.cols + 1,
          SumOfSquares<T>{static_cast<const T*>(src.data), static_cast<double*>(partials.data),
                          src.elements(), partials.cols});
    });
  }

  void total(ConstView src, View dst) override {
    Require("total")
        .that(src.type == DType::f32 || src.type == DType::f64, "src must be f32 or f64")
        .that(src.rows == 1, "src must be a vector")
        .shape(dst, DType::f64, 1, 1, "dst");
    double* out = static_cast<double*>(dst.data);
    if (src.type == DType::f32)
      launch<float>(1, src.cols, Total<float>{static_cast<const float*>(src.data), out, src.cols});
    else
      launch<double>(1, src.cols,
                     Total<double>{static_cast<const double*>(src.data), out, src.cols});
  }

  void fill(View dst, double value) override {
    if (dst.type == DType::i32)
      return launch_tiles<float>(dst, Fill<int32_t>{rows_of<int32_t>(dst), value, tiling(dst)});
    with_type("fill", dst.type, [&]<class T>() {
      launch_tiles<T>(dst, Fill<T>{rows_of<T>(dst), value, tiling(dst)});
    });
  }

  void copy(ConstView src, View dst, double factor) override {
    Require("copy").shape(dst, dst.type, src.rows, src.cols, "dst");
    if (src.type == DType::i32) {
      Require("copy").that(dst.type == DType::i32 && factor == 1,
                           "ids are copied to ids, unscaled");
      return launch_tiles<float>(
          src,
          Copy<int32_t, int32_t>{rows_of<int32_t>(src), rows_of<int32_t>(dst), 1, tiling(src)});
    }
    with_type("copy", src.type, [&]<class From>() {
      with_type("copy", dst.type, [&]<class To>() {
        launch_tiles<From>(
            src, Copy<From, To>{rows_of<From>(src), rows_of<To>(dst), factor, tiling(src)});
      });
    });
  }

  void accumulate(ConstView src, View dst, double factor) override {
    Require("accumulate").shape(dst, dst.type, src.rows, src.cols, "dst");
    with_type("accumulate", src.type, [&]<class From>() {
      with_type("accumulate", dst.type, [&]<class To>() {
        launch_tiles<From>(
            src, Accumulate<From, To>{rows_of<From>(src), rows_of<To>(dst), factor, tiling(src)});
      });
    });
  }

  void fill_normal(View dst, double deviation, Stream stream, const RowMap& rows,
                   int64_t first_column) override {
    with_type("fill_normal", dst.type, [&]<class T>() {
      launch_tiles<T>(
          dst, FillNormal<T>{rows_of<T>(dst), deviation, stream, rows, first_column, tiling(dst)});
    });
  }

  void arg_max(ConstView logits, int64_t first, View ids, View values) override {
    with_type("arg_max", logits.type, [&]<class T>() {
      using A = Arithmetic<T>;
      Require("arg_max")
          .shape(ids, DType::i32, 1, logits.rows, "ids")
          .optional(values, dtype_of<A>(), 1, logits.rows, "values");
      launch<T>(logits.rows, logits.cols,
                ArgMax<T>{rows_of<T>(logits), rows_of<int32_t>(ids), rows_of<A>(values), first,
                          logits.cols});
    });
  }

  void sample(ConstView logits, View ids, const SamplingRule& rule, Stream stream,
              const RowMap& rows) override {
    with_type("sample", logits.type, [&]<class T>() {
      Require("sample")
          .that(rule.temperature > 0, "temperature must be positive; arg_max is the limit 0")
          .that(rule.top_k >= 0 && rule.top_p > 0 && rule.top_p <= 1,
                "top_k must be 0 or more and top_p in (0, 1]")
          .shape(ids, DType::i32, 1, logits.rows, "ids");
      launch<T>(
          logits.rows, 64 * logits.cols,
          Sample<T>{rows_of<T>(logits), rows_of<int32_t>(ids), logits.cols, rule, stream, rows});
    });
  }

 protected:
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
    // One stride rule serves an operand and its gradient only through Rows, so each keeps its own.
    return {in, {rows_of<T>(out), rows_of<T>(grad_out), rows_of<A>(log_sum)}};
  }

  template <class T, class Kernel>
  void launch(int64_t count, int64_t work, const Kernel& kernel) {
    launcher_.template rows<T>(count, work, kernel);
  }
  Launcher& launcher() { return launcher_; }

 private:
  static Tiling tiling(const ConstView& view) { return {view.rows, view.cols}; }
  template <class T, class Kernel>
  void launch_tiles(const ConstView& view, const Kernel& kernel) {
    if (view.elements() == 0) return;
    launch<T>(tiling(view).items(), smaller(view.cols, Tiling::kWidth), kernel);
  }
  // make(block) is the kernel for blocks of that many columns.
  template <class T, class Make>
  void launch_columns(int64_t rows, int64_t cols, Make make) {
    const int64_t block = launcher_.column_block(cols);
    launch<T>((cols + block - 1) / block, rows * block, make(block));
  }
  void permute_heads(std::string_view op, ConstView src, View dst, const HeadLayout& l,
                     bool merge) {
    with_type(op, src.type, [&]<class T>() {
      launch<T>(l.sequences * l.heads * l.tokens, l.head_dim,
                PermuteHeads<T>{rows_of<T>(src), rows_of<T>(dst), l.sequences, l.tokens, l.heads,
                                l.head_dim, l.token_major, merge});
    });
  }

  Launcher launcher_;
};

}  // namespace kernels
