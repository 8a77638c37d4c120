// Head: final norm, logits over this rank's vocabulary, and the cross-entropy over all of it.
#pragma once
#include <optional>

#include "engine/nn/linear.h"
#include "engine/nn/model_parameters.h"
#include "engine/nn/norm.h"

namespace engine {

class Head {
 public:
  struct Saved {
    Tensor input;  // T[local_tokens, hidden]
    Norm::Saved norm;
    Tensor logits;     // T[tokens, padded vocabulary / tp]
    Tensor top, sums;  // A[1, tokens]
    Tensor targets;    // i32[1, tokens]
  };

  // Adds its parameters as a unit. With `embedding` (tied, on the same stage) the table is shared;
  // else a tied head gets a copy.
  Head(const LayerContext& context, ParameterSet& set, const Parameter* embedding);

  int64_t unit() const { return unit_; }
  const Parameter* table() const { return table_; }

  // input T[rows, hidden] → logits A[rows, padded vocabulary / tp], of whatever tokens.
  Tensor logits(LayerContext& context, const Tensor& input) const;

  // loss f64[1, 1] = the sum over the tokens of a micro-batch; equal on all tensor ranks.
  void forward(LayerContext& context, Tensor input, Tensor targets, View loss, Saved& saved) const;
  // Gradient of `factor` · loss with respect to the input.
  Tensor backward(LayerContext& context, double factor, Saved saved) const;

 private:
  // The columns of logits that are no padding.
  View in_vocabulary(const View& logits) const;
  int64_t unit_;
  const Parameter* table_;
  std::optional<Norm> norm_;
  Linear linear_;
};

}  // namespace engine
