// Kernels: the op set a device offers to the layers, beside its matrix products.
//
// Operands are matrices [rows, cols] (view.h); vectors are one row. T is the type of activations
// and weights (f32, bf16 or f64); A is the type it is computed in (f32 for f32 and bf16, f64 for
// f64). Statistics, table gradients and parameter gradients are A; parameter gradients are *added
// to*. Ids, targets and positions are i32. `dst` may be `src` wherever both have one type and
// shape, unless said otherwise. A wrong shape or type throws std::logic_error naming the op and the
// operand. Calls return when the work is enqueued; Device::synchronize() waits for it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/attention.h"
#include "kernels/instruction_set.h"
#include "kernels/paged_attention.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/sampling.h"
#include "kernels/view.h"

namespace kernels {

// Heads of attention as columns of a [sequences · tokens, heads · head_dim] matrix; token_major as
// in AttentionShape.
struct HeadLayout {
  int64_t sequences = 1;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  bool token_major = false;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  // Norms. src, dst T[rows, cols]; gain, bias T[1, cols]; mean, rstd A[1, rows]. Without `mean` the
  // norm is an RMS norm, without `bias` it has none.
  virtual void norm_forward(ConstView src, ConstView gain, ConstView bias, View dst, View mean,
                            View rstd, double epsilon) = 0;
  // grad_src = the norm's gradient [+ residual]; `residual` (the gradient that flows past the norm)
  // may be left out. grad_src may be grad_dst or residual.
  virtual void norm_backward(ConstView grad_dst, ConstView src, ConstView gain, ConstView mean,
                             ConstView rstd, ConstView residual, View grad_src) = 0;
  // grad_gain, grad_bias A[1, cols] += sums over rows; `grad_bias` may be left out.
  virtual void norm_parameter_gradients(ConstView grad_dst, ConstView src, ConstView mean,
                                        ConstView rstd, View grad_gain, View grad_bias) = 0;

  // dst = residual + dropout(src + bias); bias and residual may be left out.
  virtual void bias_dropout_add(ConstView src, ConstView bias, ConstView residual, View dst,
                                const Dropout& dropout) = 0;
  // dst = dropout(src): also its own gradient, from grad_dst to grad_src.
  void dropout(ConstView src, View dst, const Dropout& rule) {
    bias_dropout_add(src, {}, {}, dst, rule);
  }

  // dst = F(src + bias); bias T[1, cols] may be left out. Its gradient: column_sum of grad_src.
  virtual void bias_activation_forward(ConstView src, ConstView bias, View dst, Activation f) = 0;
  virtual void bias_activation_backward(ConstView grad_dst, ConstView src, ConstView bias,
                                        View grad_src, Activation f) = 0;
  // dst = F(gate) · up, all T[rows, cols]; gate and up may be column ranges of one matrix.
  virtual void gated_forward(ConstView gate, ConstView up, View dst, Activation f) = 0;
  virtual void gated_backward(ConstView grad_dst, ConstView gate, ConstView up, View grad_gate,
                              View grad_up, Activation f) = 0;

  // Unfused attention: softmax of scale · scores T[sequences · heads · queries, keys]; a causal
  // query i sees the keys up to i + keys - queries, the others get 0.
  virtual void softmax_forward(ConstView scores, View dst, int64_t queries, bool causal,
                               double scale) = 0;
  // From the gradient of dropout(probs) to that of the scores; `dropout` as used forward.
  virtual void softmax_backward(ConstView grad_dst, ConstView probs, View grad_scores,
                                int64_t queries, bool causal, double scale,
                                const Dropout& dropout) = 0;
  // Fused attention. query, out T[sequences · queries, heads · head_dim]; key, value T[sequences ·
  // keys or more, kv_heads · head_dim]; log_sum A[sequences · heads, queries]. Any of them may be
  // column ranges of one matrix. head_dim ≤ 1024.
  virtual void attention_forward(ConstView query, ConstView key, ConstView value, View out,
                                 View log_sum, const AttentionShape& shape) = 0;
  // Sets the three gradients, which may not be the operands themselves.
  virtual void attention_backward(ConstView query, ConstView key, ConstView value, ConstView out,
                                  ConstView log_sum, ConstView grad_out, View grad_query,
                                  View grad_key, View grad_value, const AttentionShape& shape) = 0;
  // Attention of tokens T[tokens, heads · head_dim] over a cache in pages (paged_attention.h).
  // tables i32[sequences, most pages]; sequences and visible i32[1, tokens]. head_dim ≤ 1024.
  virtual void paged_attention(ConstView query, ConstView key, ConstView value, ConstView tables,
                               ConstView sequences, ConstView visible, View out,
                               const PagedShape& shape) = 0;
  // dst[rows[i]] = src[i] with rows i32[1, src.rows], distinct.
  virtual void scatter_rows(ConstView src, ConstView rows, View dst) = 0;
  // [sequences · tokens, heads · head_dim] → [sequences · heads · tokens, head_dim] and back.
  virtual void split_heads(ConstView src, View dst, const HeadLayout& layout) = 0;
  virtual void merge_heads(ConstView src, View dst, const HeadLayout& layout) = 0;

  // table A[positions, dim]: cosines, then sines, of position · base^(-2i/dim).
  virtual void rotary_table(View table, double base) = 0;
  // Turns the first table.cols columns of every head of data T[tokens, heads · head_dim] in place;
  // `backward` turns back. positions i32[1, tokens].
  virtual void rotary(View data, ConstView table, ConstView positions, int64_t heads,
                      bool backward) = 0;

  // dst T[rows, cols] = (or with `add` +=) the rows ids i32[1, rows] of a table of which this shard
  // holds T[count, cols] from row `first` on; rows of other shards count as 0.
  virtual void embedding_forward(ConstView table, int64_t first, ConstView ids, View dst,
                                 bool add) = 0;
  // grad_table A[count, cols] += grad_dst by id.
  virtual void embedding_backward(ConstView grad_dst, ConstView ids, int64_t first,
                                  View grad_table) = 0;

  // Cross-entropy over a shard T[tokens, cols] of the logits whose first column is vocabulary id
  // `first`. Vectors are A[1, tokens]; targets < 0 are ignored (loss and gradient 0).
  //
  // top = the largest logit of the shard, sums = Σ e^(logit - top), chosen = the target's logit or,
  // when another shard has it, 0. Behind it the caller reduces over the shards: top by maximum,
  // then, after cross_entropy_rescale, sums and chosen by sum.
  virtual void cross_entropy_sums(ConstView logits, ConstView targets, int64_t first, View top,
                                  View sums, View chosen) = 0;
  // sums relative to `from` become sums relative to `to`.
  virtual void cross_entropy_rescale(View sums, ConstView from, ConstView to) = 0;
  // losses may be chosen.
  virtual void cross_entropy_losses(ConstView top, ConstView sums, ConstView chosen,
                                    ConstView targets, View losses) = 0;
  // logits become factor times their gradient.
  virtual void cross_entropy_backward(View logits, ConstView top, ConstView sums, ConstView targets,
                                      int64_t first, double factor) = 0;

  // One AdamW update of all pieces, which are of one type. gradient, master, mean, square A;
  // weights T, or empty in all.
  virtual void adam(std::span<const AdamPiece> pieces, const AdamStep& step) = 0;

  // dst A[1, cols] += Σ_rows src.
  virtual void column_sum(ConstView src, View dst) = 0;
  // Row piece.row of partials f64[rows, parts] = the sums of squares of `parts` equal parts of a
  // piece; all pieces are of one type.
  virtual void sums_of_squares(std::span<const SquaresPiece> pieces, View partials) = 0;
  // dst f64[1, rows] = the sum of each row of src f32 or f64 [rows, n].
  virtual void total(ConstView src, View dst) = 0;

  virtual void fill(View dst, double value) = 0;
  // dst = factor · src, and dst += factor · src, between any of f32, bf16 and f64 (dst = src also
  // for i32 and a factor of 1).
  virtual void copy(ConstView src, View dst, double factor = 1) = 0;
  virtual void accumulate(ConstView src, View dst, double factor = 1) = 0;
  void scale(View data, double factor) { copy(data, data, factor); }
  // Normal values by global row and column.
  virtual void fill_normal(View dst, double deviation, Stream stream, const RowMap& rows,
                           int64_t first_column) = 0;

  // ids i32[1, rows] = first + the lowest index of the largest logit; values A[1, rows] or empty.
  virtual void arg_max(ConstView logits, int64_t first, View ids, View values) = 0;
  // ids i32[1, rows] of the rows that `draws` name = what was drawn for them; the others stay.
  virtual void sample(ConstView logits, View ids, std::span<const RowDraw> draws) = 0;
};

// The CPU's kernels, on at most `threads` threads. Results do not depend on their number, but in
// the last bits on the instruction set.
std::unique_ptr<Kernels> make_cpu_kernels(int threads, InstructionSet set = best_instruction_set());

}  // namespace kernels
