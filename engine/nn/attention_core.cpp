// The core of attention: softmax(Q Kᵀ) V, unfused by batched products over the heads.
#include "engine/nn/attention.h"

namespace engine {
namespace {

// Rows [sequence · seq, (sequence + 1) · seq), and of those one head in `group` from head `first`
// on: the first matrix of a batch over the KV heads.
template <class V>
V head_of(const V& matrix, int64_t sequence, int64_t seq, int64_t head, int64_t head_dim) {
  return matrix.row_range(sequence * seq, seq).columns(head * head_dim, head_dim);
}

}  // namespace

void Attention::core_forward(LayerContext& context, const MicroBatch& batch, Saved& saved,
                             MemoryUse use) const {
  const int64_t seq = context.options().seq, sequences = context.options().sequences;
  const View qkv = saved.qkv;
  if (batch.cache != nullptr)
    return batch.cache->attend(context, layer_, query_of(qkv), key_of(qkv), value_of(qkv),
                               saved.out, shape(context, batch));
  if (fused_) {
    saved.log_sum =
        Tensor(context.device(), {sequences * heads_.count, seq}, context.arithmetic(), use);
    context.kernels().attention_forward(query_of(qkv), key_of(qkv), value_of(qkv), saved.out,
                                        saved.log_sum, shape(context, batch));
    return;
  }
  make_weights(context, batch, saved, recompute_core_ ? MemoryUse::recompute : use);
  const View weights = saved.dropped.empty() ? saved.probs : saved.dropped;
  for (int64_t sequence = 0; sequence < sequences; ++sequence)
    for (int64_t place = 0; place < group(); ++place) {
      Matmul product;  // out = weights · V, a batch of one head in every group
      product.a = weights.row_range((sequence * heads_.count + place) * seq, seq);
      product.b = head_of(value_of(qkv), sequence, seq, 0, head_dim_);
      product.c = head_of(saved.out.view(), sequence, seq, place, head_dim_);
      product.batch = heads_.kv_count;
      product.a_step = group() * seq * seq;
      product.b_step = head_dim_;
      product.c_step = group() * head_dim_;
      context.device().matmul(product);
    }
  if (recompute_core_) {
    saved.probs.reset();
    saved.dropped.reset();
  }
}

void Attention::make_weights(LayerContext& context, const MicroBatch& batch, Saved& saved,
                             MemoryUse use) const {
  const int64_t seq = context.options().seq, sequences = context.options().sequences;
  const int64_t rows = sequences * heads_.count * seq;
  const View qkv = saved.qkv;
  saved.probs = context.matrix(rows, seq, use);
  const View probs = saved.probs;
  for (int64_t sequence = 0; sequence < sequences; ++sequence)
    for (int64_t place = 0; place < group(); ++place) {
      Matmul product;  // scores = Q · Kᵀ
      product.a = head_of(query_of(qkv), sequence, seq, place, head_dim_);
      product.b = head_of(key_of(qkv), sequence, seq, 0, head_dim_);
      product.c = probs.row_range((sequence * heads_.count + place) * seq, seq);
      product.transpose_b = true;
      product.batch = heads_.kv_count;
      product.a_step = group() * head_dim_;
      product.b_step = head_dim_;
      product.c_step = group() * seq * seq;
      context.device().matmul(product);
    }
  context.kernels().softmax_forward(probs, probs, seq, true, scale_);
  const kernels::Dropout dropout = shape(context, batch).dropout;
  if (!dropout.active()) return;
  saved.dropped = context.matrix(rows, seq, use);
  context.kernels().dropout(probs, saved.dropped, dropout);
}

void Attention::unfused_backward(LayerContext& context, ConstView grad_out, const MicroBatch& batch,
                                 Saved& saved, View grad_qkv) const {
  const int64_t seq = context.options().seq;
  if (recompute_core_) make_weights(context, batch, saved, MemoryUse::recompute);
  const View qkv = saved.qkv, probs = saved.probs;
  const View weights = saved.dropped.empty() ? probs : saved.dropped;
  const Tensor grad_scores = context.matrix(heads_.count * seq, seq, MemoryUse::workspace);
  for (int64_t sequence = 0; sequence < context.options().sequences; ++sequence) {
    const int64_t first_row = sequence * heads_.count * seq;
    const auto product = [&](ConstView a, ConstView b, View c, int64_t a_step, int64_t b_step,
                             int64_t c_step) {
      Matmul result;
      result.a = a;
      result.b = b;
      result.c = c;
      result.batch = heads_.kv_count;
      result.a_step = a_step;
      result.b_step = b_step;
      result.c_step = c_step;
      return result;
    };
    const int64_t scores_step = group() * seq * seq, query_step = group() * head_dim_;
    for (int64_t place = 0; place < group(); ++place) {
      const ConstView grad = head_of(grad_out, sequence, seq, place, head_dim_);
      Matmul to_value = product(weights.row_range(first_row + place * seq, seq), grad,
                                head_of(value_of(grad_qkv), sequence, seq, 0, head_dim_),
                                scores_step, query_step, head_dim_);
      to_value.transpose_a = true;
      to_value.beta = place == 0 ? 0 : 1;
      context.device().matmul(to_value);
      Matmul to_weights = product(grad, head_of(value_of(qkv), sequence, seq, 0, head_dim_),
                                  grad_scores.view().row_range(place * seq, seq), query_step,
                                  head_dim_, scores_step);
      to_weights.transpose_b = true;
      context.device().matmul(to_weights);
    }
    context.kernels().softmax_backward(
        grad_scores, probs.row_range(first_row, heads_.count * seq), grad_scores, seq, true, scale_,
        context.attention_dropout(batch, layer_, sequence, heads_.first));
    for (int64_t place = 0; place < group(); ++place) {
      const View scores = grad_scores.view().row_range(place * seq, seq);
      context.device().matmul(product(scores, head_of(key_of(qkv), sequence, seq, 0, head_dim_),
                                      head_of(query_of(grad_qkv), sequence, seq, place, head_dim_),
                                      scores_step, head_dim_, query_step));
      Matmul to_key = product(scores, head_of(query_of(qkv), sequence, seq, place, head_dim_),
                              head_of(key_of(grad_qkv), sequence, seq, 0, head_dim_), scores_step,
                              query_step, head_dim_);
      to_key.transpose_a = true;
      to_key.beta = place == 0 ? 0 : 1;
      context.device().matmul(to_key);
    }
  }
}

}  // namespace engine
