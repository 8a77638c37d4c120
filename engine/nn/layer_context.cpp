// What all layers of one rank share.
#include "engine/nn/layer_context.h"

#include <numeric>

#include "engine/base/errors.h"

namespace engine {
namespace {

int64_t rotated_dim(const ModelSpec& model) {
  const double part = model.rotary_fraction * static_cast<double>(model.head_dim);
  return static_cast<int64_t>(part) / 2 * 2;
}

}  // namespace

LayerContext::LayerContext(Device& device, World& world, const LayerOptions& options)
    : device_(device),
      world_(world),
      options_(options),
      tp_(world.tensor().size()),
      tp_rank_(world.tensor().rank()) {
  std::vector<int32_t> places(static_cast<size_t>(options.sequences * options.seq));
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<int32_t>(static_cast<int64_t>(i) % options.seq);
  place_tokens(places);
  if (model().position == PositionKind::rotary) {
    rotary_table_ =
        Tensor(device, {options.seq, rotated_dim(model())}, arithmetic(), MemoryUse::workspace);
    kernels().rotary_table(rotary_table_, model().rotary_base);
  }
}

void LayerContext::place_tokens(std::span<const int32_t> places) {
  const auto count = static_cast<int64_t>(places.size());
  expect(!options_.sequence_parallel || count % tp_ == 0,
         "tp divides the tokens of a micro-batch under sequence parallelism");
  if (positions_.empty() || positions_.elements() != count)
    positions_ = Tensor(device_, {1, count}, DType::i32, MemoryUse::workspace);
  device_.copy_to_device(positions_.data(), places.data(), positions_.bytes());
}

kernels::Dropout LayerContext::residual_dropout(kernels::Purpose purpose, const MicroBatch& batch,
                                                int64_t layer) const {
  if (!model().dropout || !dropout_) return {};
  kernels::Dropout dropout;
  dropout.probability = static_cast<float>(kDropoutProbability);
  dropout.stream = kernels::make_stream(options_.seed, purpose, static_cast<uint64_t>(batch.step),
                                        static_cast<uint64_t>(layer));
  dropout.rows.first = batch.first_sequence * options_.seq;
  if (options_.sequence_parallel) dropout.rows.first += tp_rank_ * local_tokens();
  return dropout;
}

kernels::Dropout LayerContext::attention_dropout(const MicroBatch& batch, int64_t layer,
                                                 int64_t sequence, int64_t first_head) const {
  kernels::Dropout dropout = residual_dropout(kernels::Purpose::attention_dropout, batch, layer);
  dropout.rows.first =
      ((batch.first_sequence + sequence) * model().heads + first_head) * options_.seq;
  return dropout;
}

Payload payload_of(const View& view) {
  expect(view.contiguous(), "a message without gaps");
  constexpr Element kElements[] = {Element::f32, Element::bf16, Element::f64, Element::i32};
  return {view.data, view.elements(), kElements[static_cast<size_t>(view.type)]};
}

}  // namespace engine
