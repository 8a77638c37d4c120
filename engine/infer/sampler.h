// Sampler: chooses the next tokens from logits that the tensor axis divides.
#pragma once
#include <span>
#include <vector>

#include "engine/infer/step_batch.h"
#include "engine/nn/layer_context.h"

namespace engine {

// How one row of logits is read.
struct RowRule {
  SamplingSpec sampling;
  int64_t request = 0;
  int32_t draw = 0;
  int32_t target = -1;  // whose loss is asked for; -1 = none
};

// logits A[rows, padded vocabulary / tp] of this rank, one rule a row → the choices, equal on all
// tensor ranks.
std::vector<Choice> choose_tokens(LayerContext& context, const Tensor& logits,
                                  std::span<const RowRule> rules);

// The rules of a batch's rows, in order.
std::vector<RowRule> row_rules(const StepBatch& batch);

}  // namespace engine
