// Mlp: two products with an activation between them, or three with a gate, on this rank's columns.
#pragma once
#include "engine/nn/linear.h"
#include "engine/nn/model_parameters.h"

namespace engine {

class Mlp {
 public:
  struct Saved {
    Tensor first;  // T[tokens, ffn / tp] before bias and activation; gated: gate and up, twice that
    Tensor second;  // T[tokens, ffn / tp], the input of the last product
  };

  // Adds its parameters but the last product's bias.
  Mlp(const LayerContext& context, ModelParameters& parameters, int64_t layer);

  // As Attention's.
  Tensor forward(LayerContext& context, ConstView input, const MicroBatch& batch, Saved& saved,
                 MemoryUse use, MemoryUse out_use) const;
  Tensor backward(LayerContext& context, ConstView grad, ConstView input, const MicroBatch& batch,
                  Saved& saved) const;

 private:
  int64_t width_;
  bool gated_;
  kernels::Activation activation_;
  Linear first_, down_;
};

}  // namespace engine
