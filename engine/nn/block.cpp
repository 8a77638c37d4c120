// One layer of the decoder.
#include "engine/nn/block.h"

namespace engine {

Block::Block(const LayerContext& context, ParameterSet& set, int64_t layer,
             BlockRecompute recompute)
    : recompute_(recompute),
      unit_(set.begin_unit()),
      parts_(make_parts(context, set, layer, recompute)) {}

Block::Parts Block::make_parts(const LayerContext& context, ParameterSet& set, int64_t layer,
                               BlockRecompute recompute) {
  using kernels::Purpose;
  ModelParameters parameters(context, set);
  // What the ranks divide comes first, so that the replicated rest is one run.
  Attention attention(context, parameters, layer, recompute == BlockRecompute::core);
  Mlp mlp(context, parameters, layer);
  const auto norm = [&](Part part) {
    const Parameter* gain = parameters.weight(layer, part);
    return Norm(*gain, parameters.bias(layer, part));
  };
  const Norm attention_norm = norm(Part::attention_norm);
  const Parameter* attention_bias = parameters.bias(layer, Part::attention_out);
  const Norm mlp_norm = norm(Part::mlp_norm);
  const Parameter* mlp_bias = parameters.bias(layer, Part::down);
  return {{attention, attention_norm, attention_bias, Purpose::attention_out_dropout, layer},
          {mlp, mlp_norm, mlp_bias, Purpose::mlp_dropout, layer}};
}

Tensor Block::run(LayerContext& context, Tensor input, const MicroBatch& batch, Saved& saved,
                  MemoryUse use, MemoryUse out_use) const {
  Tensor middle =
      parts_.attention.forward(context, std::move(input), batch, saved.attention, use, use);
  return parts_.mlp.forward(context, std::move(middle), batch, saved.mlp, use, out_use);
}

Tensor Block::forward(LayerContext& context, Tensor input, const MicroBatch& batch, Saved& saved,
                      MemoryUse out_use) const {
  if (recompute_ != BlockRecompute::all)
    return run(context, std::move(input), batch, saved, MemoryUse::activation, out_use);
  Saved dropped;
  Tensor out = run(context, std::move(input), batch, dropped, MemoryUse::recompute, out_use);
  saved.input = std::move(dropped.attention.input);
  return out;
}

Tensor Block::backward(LayerContext& context, const Tensor& grad, const MicroBatch& batch,
                       Saved saved) const {
  if (recompute_ == BlockRecompute::all)
    run(context, std::move(saved.input), batch, saved, MemoryUse::recompute, MemoryUse::workspace);
  const Tensor middle = parts_.mlp.backward(context, grad, batch, std::move(saved.mlp));
  return parts_.attention.backward(context, middle, batch, std::move(saved.attention));
}

}  // namespace engine
