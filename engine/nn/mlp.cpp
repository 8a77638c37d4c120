// Two products with an activation between them, or three with a gate.
#include "engine/nn/mlp.h"

#include "engine/nn/region.h"

namespace engine {
namespace {

kernels::Activation kernel_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu:
      return kernels::Activation::gelu;
    case ActivationKind::gelu_tanh:
      return kernels::Activation::gelu_tanh;
    case ActivationKind::relu:
      return kernels::Activation::relu;
    case ActivationKind::silu:
      return kernels::Activation::silu;
  }
  fail_expectation("an activation is one of four");
}

}  // namespace

Mlp::Mlp(const LayerContext& context, ModelParameters& parameters, int64_t layer)
    : width_(context.model().ffn_hidden / context.tp()),
      gated_(context.model().gated_mlp),
      activation_(kernel_activation(context.model().activation)) {
  const auto weight = [&](Part part) { return parameters.weight(layer, part); };
  const auto bias = [&](Part part) { return parameters.bias(layer, part); };
  const bool biases = context.model().mlp_bias;
  if (gated_) {
    first_.weight = {weight(Part::gate), weight(Part::up)};
    if (biases) first_.bias = {bias(Part::gate), bias(Part::up)};
  } else {
    first_.weight = {weight(Part::up)};
    if (biases) first_.bias = {bias(Part::up)};
  }
  down_.weight = {weight(Part::down)};
}

Tensor Mlp::forward(LayerContext& context, ConstView input, const MicroBatch&, Saved& saved,
                    MemoryUse use, MemoryUse out_use) const {
  saved.first = context.matrix(input.rows, width_ * (gated_ ? 2 : 1), use);
  saved.second = context.matrix(input.rows, width_, use);
  first_.forward(context, input, saved.first);
  const View first = saved.first;
  if (gated_)
    context.kernels().gated_forward(first.columns(0, width_), first.columns(width_, width_),
                                    saved.second, activation_);
  else
    context.kernels().bias_activation_forward(first, {}, saved.second, activation_);
  Tensor partial = context.matrix(input.rows, context.model().hidden, out_use);
  down_.forward(context, saved.second, partial);
  return partial;
}

Tensor Mlp::backward(LayerContext& context, ConstView grad, ConstView input, const MicroBatch&,
                     Saved& saved) const {
  Tensor grad_second = context.matrix(grad.rows, width_, MemoryUse::workspace);
  down_.input_gradient(context, grad, grad_second);
  down_.parameter_gradients(context, grad, saved.second);
  saved.second.reset();
  const View first = saved.first;
  if (gated_)  // in place of what was saved
    context.kernels().gated_backward(grad_second, first.columns(0, width_),
                                     first.columns(width_, width_), first.columns(0, width_),
                                     first.columns(width_, width_), activation_);
  else
    context.kernels().bias_activation_backward(grad_second, first, {}, first, activation_);
  grad_second.reset();
  Tensor grad_input = first_layer_backward(context, first_, first, input);
  saved = Saved();
  return grad_input;
}

}  // namespace engine
