// AdamW on what this rank updates.
#include "engine/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace engine {
namespace {

// A sum of squares is taken in this many parts at once.
constexpr int64_t kSquareParts = 64;

ShardedParameters::Range overlap(const Parameter& p, const ShardedParameters::Range& range) {
  const int64_t first = std::max(p.offset, range.first);
  const int64_t end = std::min(p.offset + p.elements(), range.first + range.count);
  return {first, std::max<int64_t>(0, end - first)};
}

}  // namespace

double learning_rate(const OptimizerSpec& spec, int64_t step, int64_t steps) {
  if (step < spec.warmup_steps)
    return spec.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(spec.warmup_steps);
  const auto falling = static_cast<double>(std::max<int64_t>(1, steps - spec.warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - spec.warmup_steps) / falling);
  return spec.minimum_rate +
         (spec.learning_rate - spec.minimum_rate) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

Optimizer::Optimizer(LayerContext& context, ShardedParameters& parameters,
                     const OptimizerSpec& spec)
    : context_(context), parameters_(parameters), spec_(spec) {
  int64_t elements = 0;
  for (const Parameter& p : parameters.set().all()) {
    const ShardedParameters::Range range = overlap(p, parameters.updated(p.unit));
    if (range.count == 0) continue;
    pieces_.push_back({&p, range, elements});
    elements += range.count;
  }
  const auto make = [&] {
    return Tensor(context.device(), {1, elements}, context.arithmetic(), MemoryUse::optimizer);
  };
  if (keeps_master()) master_ = make();
  mean_ = make();
  square_ = make();
  context.kernels().fill(mean_, 0);
  context.kernels().fill(square_, 0);
}

View Optimizer::state(const Tensor& tensor, const Piece& piece) const {
  return tensor.view().columns(piece.first, piece.range.count);
}

View Optimizer::master(const Piece& piece) const {
  return keeps_master() ? state(master_, piece)
                        : parameters_.weights(piece.parameter->unit, piece.range);
}

void Optimizer::take_weights() {
  if (!keeps_master()) return;
  for (const Piece& piece : pieces_)
    context_.kernels().copy(parameters_.weights(piece.parameter->unit, piece.range),
                            state(master_, piece));
}

void Optimizer::sum_squares(View sums) {
  std::vector<kernels::SquaresPiece> pieces;
  for (const Parameter& p : parameters_.set().all()) {
    const ShardedParameters::Range range = overlap(p, parameters_.shard(p.unit));
    if (p.owned && range.count > 0)
      pieces.push_back({parameters_.gradients(p.unit, range), p.ordinal});
  }
  const Tensor partials(context_.device(), {sums.cols, kSquareParts}, DType::f64,
                        MemoryUse::workspace);
  context_.kernels().fill(partials, 0);  // others have the other parameters
  context_.kernels().sums_of_squares(pieces, partials);
  context_.kernels().total(partials, sums);
}

void Optimizer::update(double rate, double gradient_scale, int64_t step) {
  kernels::AdamStep adam;
  adam.learning_rate = rate;
  adam.beta1 = spec_.beta1;
  adam.beta2 = spec_.beta2;
  adam.epsilon = spec_.epsilon;
  adam.step = step + 1;
  adam.gradient_scale = gradient_scale;
  std::vector<kernels::AdamPiece> all;
  for (const Piece& piece : pieces_) {
    const int64_t unit = piece.parameter->unit;
    all.push_back({parameters_.gradients(unit, piece.range), master(piece), state(mean_, piece),
                   state(square_, piece),
                   keeps_master() ? parameters_.weights(unit, piece.range) : View(),
                   piece.parameter->decays ? spec_.weight_decay : 0});
  }
  context_.kernels().adam(all, adam);
}

std::vector<OptimizerSlice> Optimizer::slices() const {
  std::vector<OptimizerSlice> slices;
  for (const Piece& piece : pieces_)
    slices.push_back({piece.parameter, piece.range.first - piece.parameter->offset,
                      piece.range.count, master(piece), state(mean_, piece),
                      state(square_, piece)});
  return slices;
}

}  // namespace engine
