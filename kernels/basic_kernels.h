// BasicKernels: the op set for any launcher. Checks shapes, picks the type, launches.
//
// A launcher has
//   rows<T>(count, work, kernel)  runs kernel(group, i) for i in [0, count), in any order; one call
//                                 touches about `work` elements
//   column_block(cols)            how many columns a group takes in kernels that walk down columns
#pragma once
#include <utility>

#include "kernels/check.h"
#include "kernels/elementwise.h"
#include "kernels/kernels.h"

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

template <class Launcher>
class BasicKernels : public Kernels {
 public:
  explicit BasicKernels(Launcher launcher) : launcher_(std::move(launcher)) {}

  void norm_forward(ConstView src, ConstView gain, ConstView bias, View dst, View mean, View rstd,
                    double epsilon) override;
  void norm_backward(ConstView grad_dst, ConstView src, ConstView gain, ConstView mean,
                     ConstView rstd, ConstView residual, View grad_src) override;
  void norm_parameter_gradients(ConstView grad_dst, ConstView src, ConstView mean, ConstView rstd,
                                View grad_gain, View grad_bias) override;
  void bias_dropout_add(ConstView src, ConstView bias, ConstView residual, View dst,
                        const Dropout& dropout) override;
  void bias_activation_forward(ConstView src, ConstView bias, View dst, Activation f) override;
  void bias_activation_backward(ConstView grad_dst, ConstView src, ConstView bias, View grad_src,
                                Activation f) override;
  void gated_forward(ConstView gate, ConstView up, View dst, Activation f) override;
  void gated_backward(ConstView grad_dst, ConstView gate, ConstView up, View grad_gate,
                      View grad_up, Activation f) override;
  void softmax_forward(ConstView scores, View dst, int64_t queries, bool causal,
                       double scale) override;
  void softmax_backward(ConstView grad_dst, ConstView probs, View grad_scores, int64_t queries,
                        bool causal, double scale, const Dropout& dropout) override;
  void attention_forward(ConstView query, ConstView key, ConstView value, View out, View log_sum,
                         const AttentionShape& s) override;
  void attention_backward(ConstView query, ConstView key, ConstView value, ConstView out,
                          ConstView log_sum, ConstView grad_out, View grad_query, View grad_key,
                          View grad_value, const AttentionShape& s) override;
  void paged_attention(ConstView query, ConstView key, ConstView value, ConstView tables,
                       ConstView sequences, ConstView visible, View out,
                       const PagedShape& s) override;
  void scatter_rows(ConstView src, ConstView rows, View dst) override;
  void split_heads(ConstView src, View dst, const HeadLayout& l) override;
  void merge_heads(ConstView src, View dst, const HeadLayout& l) override;
  void rotary_table(View table, double base) override;
  void rotary(View data, ConstView table, ConstView positions, int64_t heads,
              bool backward) override;
  void embedding_forward(ConstView table, int64_t first, ConstView ids, View dst,
                         bool add) override;
  void embedding_backward(ConstView grad_dst, ConstView ids, int64_t first,
                          View grad_table) override;
  void cross_entropy_sums(ConstView logits, ConstView targets, int64_t first, View top, View sums,
                          View chosen) override;
  void cross_entropy_rescale(View sums, ConstView from, ConstView to) override;
  void cross_entropy_losses(ConstView top, ConstView sums, ConstView chosen, ConstView targets,
                            View losses) override;
  void cross_entropy_backward(View logits, ConstView top, ConstView sums, ConstView targets,
                              int64_t first, double factor) override;
  void adam(std::span<const AdamPiece> pieces, const AdamStep& step) override;
  void column_sum(ConstView src, View dst) override;
  void sums_of_squares(std::span<const SquaresPiece> pieces, View partials) override;
  void total(ConstView src, View dst) override;
  void fill(View dst, double value) override;
  void copy(ConstView src, View dst, double factor) override;
  void accumulate(ConstView src, View dst, double factor) override;
  void fill_normal(View dst, double deviation, Stream stream, const RowMap& rows,
                   int64_t first_column) override;
  void arg_max(ConstView logits, int64_t first, View ids, View values) override;
  void sample(ConstView logits, View ids, std::span<const RowDraw> draws) override;

 protected:
  template <class T, class Kernel>
  void launch(int64_t count, int64_t work, const Kernel& kernel) {
    launcher_.template rows<T>(count, work, kernel);
  }
  const Launcher& launcher() const { return launcher_; }

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
  void permute_heads(std::string_view op, ConstView src, View dst, const HeadLayout& l, bool merge);

  Launcher launcher_;
};

}  // namespace kernels

// The definitions, by family.
#include "kernels/basic_arithmetic.h"
#include "kernels/basic_attention.h"
#include "kernels/basic_layers.h"
