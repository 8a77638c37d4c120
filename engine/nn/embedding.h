// Embedding: token table, divided by vocabulary, learned positions and dropout.
#pragma once
#include "engine/nn/linear.h"
#include "engine/nn/model_parameters.h"

namespace engine {

class Embedding {
 public:
  // Adds its parameters as a unit.
  Embedding(const LayerContext& context, ParameterSet& set);

  int64_t unit() const { return unit_; }
  const Parameter* table() const { return table_; }

  // ids i32[1, tokens] → T[local_tokens, hidden] of memory `out_use`.
  Tensor forward(LayerContext& context, ConstView ids, const MicroBatch& batch,
                 MemoryUse out_use) const;
  void backward(LayerContext& context, const Tensor& grad, ConstView ids,
                const MicroBatch& batch) const;

 private:
  int64_t unit_;
  const Parameter* table_;
  const Parameter* positions_ = nullptr;
};

}  // namespace engine
