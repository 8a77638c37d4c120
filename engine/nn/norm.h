// Norm: layer norm or RMS norm over the hidden dim.
#pragma once
#include "engine/nn/layer_context.h"
#include "engine/nn/parameter.h"

namespace engine {

class Norm {
 public:
  struct Saved {
    Tensor output;      // T[local_tokens, hidden]
    Tensor mean, rstd;  // A[1, local_tokens]; an RMS norm has no mean
  };
  // `bias` is null for an RMS norm.
  Norm(const Parameter& gain, const Parameter* bias) : gain_(&gain), bias_(bias) {}

  void forward(LayerContext& context, const Tensor& input, Saved& saved, MemoryUse use) const;
  // Turns grad_output into the gradient of the input, plus `residual` (or empty): the gradient that
  // flows past the norm. Adds to the parameters' gradients.
  void backward(LayerContext& context, Tensor& grad_output, const Tensor& input, const Saved& saved,
                ConstView residual) const;

 private:
  const Parameter* gain_;
  const Parameter* bias_;
};

}  // namespace engine
