// Branch: y = x + dropout(inner(norm(x)) + bias), one half of a layer.
#pragma once
#include <utility>

#include "engine/nn/norm.h"
#include "engine/nn/region.h"

namespace engine {

// Inner (Attention, Mlp) works inside the tensor region: from all tokens to partial sums.
template <class Inner>
class Branch {
 public:
  struct Saved {
    Tensor input;  // T[local_tokens, hidden]
    Norm::Saved norm;
    typename Inner::Saved inner;
  };

  // `bias` may be null; `purpose` and `layer` name the random numbers of the dropout.
  Branch(Inner inner, Norm norm, const Parameter* bias, kernels::Purpose purpose, int64_t layer)
      : inner_(std::move(inner)), norm_(norm), bias_(bias), purpose_(purpose), layer_(layer) {}

  // Keeps `input`. What it saves is memory `use`, what it returns `out_use`.
  Tensor forward(LayerContext& context, Tensor input, const MicroBatch& batch, Saved& saved,
                 MemoryUse use, MemoryUse out_use) const {
    saved.input = std::move(input);
    norm_.forward(context, saved.input, saved.norm, use);
    Tensor partial = inner_.forward(context, gather_tokens(context, saved.norm.output), batch,
                                    saved.inner, use, use_of_partials(context, out_use));
    Tensor out = sum_partials(context, std::move(partial), out_use);
    context.kernels().bias_dropout_add(out, bias_ != nullptr ? bias_->weight : View(), saved.input,
                                       out, context.residual_dropout(purpose_, batch, layer_));
    return out;
  }

  // From the gradient of y to that of x. Empties `saved`.
  Tensor backward(LayerContext& context, const Tensor& grad, const MicroBatch& batch,
                  Saved saved) const {
    const kernels::Dropout dropout = context.residual_dropout(purpose_, batch, layer_);
    Tensor dropped;
    if (dropout.active()) {
      dropped = context.matrix(grad.dim(0), grad.dim(1), MemoryUse::workspace);
      context.kernels().dropout(grad, dropped, dropout);
    }
    const Tensor& grad_sum = dropout.active() ? dropped : grad;
    if (bias_ != nullptr && !bias_->is_frozen())
      context.kernels().column_sum(grad_sum, bias_->gradient);
    Tensor whole_grad = gather_tokens(context, grad_sum);
    Tensor inner_input = start_gather(context, saved.norm.output);
    Tensor partial = inner_.backward(context, whole_grad, inner_input, batch, saved.inner);
    for (Tensor* read : {&whole_grad, &inner_input, &dropped}) read->reset();
    Tensor grad_input = finish_sum(context, std::move(partial), MemoryUse::workspace);
    norm_.backward(context, grad_input, saved.input, saved.norm, grad);
    return grad_input;
  }

 private:
  Inner inner_;
  Norm norm_;
  const Parameter* bias_;
  kernels::Purpose purpose_;
  int64_t layer_;
};

}  // namespace engine
