// Layer norm or RMS norm over the hidden dim.
#include "engine/nn/norm.h"

namespace engine {

void Norm::forward(LayerContext& context, const Tensor& input, Saved& saved, MemoryUse use) const {
  const int64_t tokens = input.dim(0);
  saved.output = context.matrix(tokens, input.dim(1), use);
  if (bias_ != nullptr) saved.mean = context.statistics(tokens, use);
  saved.rstd = context.statistics(tokens, use);
  context.kernels().norm_forward(input, gain_->weight, bias_ != nullptr ? bias_->weight : View(),
                                 saved.output, saved.mean, saved.rstd,
                                 context.model().norm_epsilon);
}

void Norm::backward(LayerContext& context, Tensor& grad_output, const Tensor& input,
                    const Saved& saved, ConstView residual) const {
  if (!gain_->is_frozen())
    context.kernels().norm_parameter_gradients(grad_output, input, saved.mean, saved.rstd,
                                               gain_->gradient,
                                               bias_ != nullptr ? bias_->gradient : View());
  context.kernels().norm_backward(grad_output, input, gain_->weight, saved.mean, saved.rstd,
                                  residual, grad_output);
}

}  // namespace engine
