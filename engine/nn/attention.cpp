// Attention on this rank's heads: projections, and the core by the fused kernel.
#include "engine/nn/attention.h"

#include <cmath>

#include "engine/nn/region.h"

namespace engine {

Attention::Attention(const LayerContext& context, ModelParameters& parameters, int64_t layer,
                     bool recompute_core)
    : layer_(layer),
      fused_(context.options().attention == AttentionKind::flash),
      recompute_core_(recompute_core),
      heads_(rank_heads(context.model(), context.tp(), context.tp_rank())),
      head_dim_(context.model().head_dim),
      scale_(1 / std::sqrt(static_cast<double>(head_dim_))) {
  const auto weight = [&](Part part) { return parameters.weight(layer, part); };
  const auto bias = [&](Part part) { return parameters.bias(layer, part); };
  qkv_.weight = {weight(Part::query), weight(Part::key), weight(Part::value)};
  if (context.model().qkv_bias) qkv_.bias = {bias(Part::query), bias(Part::key), bias(Part::value)};
  out_.weight = {weight(Part::attention_out)};
}

void Attention::rotate(LayerContext& context, View qkv, bool backward) const {
  if (context.rotary_table().empty()) return;
  // Query and key heads stand side by side.
  const int64_t heads = heads_.count + heads_.kv_count;
  context.kernels().rotary(qkv.columns(0, heads * head_dim_), context.rotary_table(),
                           context.positions(), heads, backward);
}

kernels::AttentionShape Attention::shape(const LayerContext& context,
                                         const MicroBatch& batch) const {
  kernels::AttentionShape shape;
  shape.sequences = context.options().sequences;
  shape.queries = shape.keys = context.options().seq;
  shape.heads = heads_.count;
  shape.kv_heads = heads_.kv_count;
  shape.head_dim = head_dim_;
  shape.scale = scale_;
  shape.dropout = context.attention_dropout(batch, layer_, 0, heads_.first);
  // This rank's heads of the next sequence lie behind all heads of this one.
  shape.dropout.rows.run = heads_.count * shape.queries;
  shape.dropout.rows.step = context.model().heads * shape.queries;
  return shape;
}

Tensor Attention::forward(LayerContext& context, ConstView input, const MicroBatch& batch,
                          Saved& saved, MemoryUse use, MemoryUse out_use) const {
  saved.qkv = context.matrix(input.rows, qkv_width(), use);
  qkv_.forward(context, input, saved.qkv);
  rotate(context, saved.qkv, false);
  saved.out = context.matrix(input.rows, query_width(), use);
  core_forward(context, batch, saved, use);
  Tensor partial = context.matrix(input.rows, context.model().hidden, out_use);
  out_.forward(context, saved.out, partial);
  return partial;
}

Tensor Attention::backward(LayerContext& context, ConstView grad, ConstView input,
                           const MicroBatch& batch, Saved& saved) const {
  Tensor grad_out = context.matrix(grad.rows, query_width(), MemoryUse::workspace);
  out_.input_gradient(context, grad, grad_out);
  out_.parameter_gradients(context, grad, saved.out);
  Tensor grad_qkv = context.matrix(grad.rows, qkv_width(), MemoryUse::workspace);
  if (fused_) {
    fused_backward(context, grad_out, batch, saved, grad_qkv);
  } else {
    unfused_backward(context, grad_out, batch, saved, grad_qkv);
  }
  saved = Saved();
  grad_out.reset();
  rotate(context, grad_qkv, true);
  return first_layer_backward(context, qkv_, grad_qkv, input);
}

void Attention::fused_backward(LayerContext& context, ConstView grad_out, const MicroBatch& batch,
                               const Saved& saved, View grad_qkv) const {
  const View qkv = saved.qkv;
  context.kernels().attention_backward(query_of(qkv), key_of(qkv), value_of(qkv), saved.out,
                                       saved.log_sum, grad_out, query_of(grad_qkv),
                                       key_of(grad_qkv), value_of(grad_qkv), shape(context, batch));
}

}  // namespace engine
