// Optimizer: AdamW on what this rank updates, with a clipped gradient and a falling rate.
#pragma once
#include <vector>

#include "engine/plan/job.h"
#include "engine/train/optimizer_slice.h"
#include "engine/train/sharded_parameters.h"

namespace engine {

// The rate of update number `step` (from 0) of `steps`: a linear rise over the warm-up steps, then
// half a cosine down to the minimum (Loshchilov and Hutter 2016, equation 5, without restarts).
double learning_rate(const OptimizerSpec& spec, int64_t step, int64_t steps);

class Optimizer {
 public:
  Optimizer(LayerContext& context, ShardedParameters& parameters, const OptimizerSpec& spec);

  // Takes the master weights from the model's; after these were set.
  void take_weights();
  // sums f64[1, ordinal_count] = by Parameter::ordinal, the squares of the reduced gradients in
  // this rank's shard that it owns, else 0. Summed over all ranks they are the squared norm.
  void sum_squares(View sums);
  // Update number `step` (from 0) with gradients times `gradient_scale`.
  void update(double rate, double gradient_scale, int64_t step);

  // What this rank keeps of each parameter's state, in the order of the units.
  std::vector<OptimizerSlice> slices() const;

 private:
  struct Piece {
    const Parameter* parameter;
    ShardedParameters::Range range;  // in its unit
    int64_t first;                   // in the tensors of state
  };
  bool keeps_master() const { return context_.type() != context_.arithmetic(); }
  View state(const Tensor& tensor, const Piece& piece) const;
  View master(const Piece& piece) const;

  LayerContext& context_;
  ShardedParameters& parameters_;
  OptimizerSpec spec_;
  std::vector<Piece> pieces_;
  Tensor master_, mean_, square_;
};

}  // namespace engine
