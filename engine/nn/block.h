// Block: one layer of the decoder, and what of it is computed again in the backward pass.
#pragma once
#include "engine/nn/attention.h"
#include "engine/nn/branch.h"
#include "engine/nn/mlp.h"

namespace engine {

enum class BlockRecompute : uint8_t { none, core, all };

class Block {
 public:
  struct Saved {
    Tensor input;  // all: only this
    Branch<Attention>::Saved attention;
    Branch<Mlp>::Saved mlp;
  };

  // Adds the parameters of layer `layer` as a unit.
  Block(const LayerContext& context, ParameterSet& set, int64_t layer, BlockRecompute recompute);

  int64_t unit() const { return unit_; }

  // input T[local_tokens, hidden], kept → the output of the same shape, of memory `out_use`.
  Tensor forward(LayerContext& context, Tensor input, const MicroBatch& batch, Saved& saved,
                 MemoryUse out_use) const;
  // From the gradient of the output to that of the input.
  Tensor backward(LayerContext& context, const Tensor& grad, const MicroBatch& batch,
                  Saved saved) const;

 private:
  struct Parts {
    Branch<Attention> attention;
    Branch<Mlp> mlp;
  };
  static Parts make_parts(const LayerContext& context, ParameterSet& set, int64_t layer,
                          BlockRecompute recompute);
  Tensor run(LayerContext& context, Tensor input, const MicroBatch& batch, Saved& saved,
             MemoryUse use, MemoryUse out_use) const;

  BlockRecompute recompute_;
  int64_t unit_;
  Parts parts_;
};

}  // namespace engine
