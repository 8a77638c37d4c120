// How activations enter and leave the part of a layer that the tensor axis divides.
#include "engine/nn/region.h"

#include "engine/base/errors.h"

namespace engine {
namespace {

// This rank's rows of a matrix of all tokens.
Tensor own_tokens(const LayerContext& context, const Tensor& whole) {
  return whole.slice(context.tp_rank() * context.local_tokens(), context.local_tokens());
}

}  // namespace

Tensor gather_tokens(LayerContext& context, const Tensor& local) {
  if (!context.options().sequence_parallel) return local.reshaped(local.shape());
  Tensor whole(context.device(), {context.tokens(), local.dim(1)}, local.type(),
               MemoryUse::communication);
  context.world().tensor().follow(context.device());
  context.world().tensor().all_gather(payload_of(local), payload_of(whole));
  return whole;
}

Tensor start_gather(LayerContext& context, const Tensor& local) {
  if (context.options().sequence_parallel) context.world().tensor().begin_overlap();
  return gather_tokens(context, local);
}

Tensor first_layer_backward(LayerContext& context, const Linear& layer, ConstView grad_output,
                            ConstView input) {
  Communicator& ranks = context.world().tensor();
  // With nothing to overlap, the parameter gradients come while there is more memory.
  const bool overlaps = ranks.overlaps();
  if (!overlaps) layer.parameter_gradients(context, grad_output, input);
  Tensor partial = context.matrix(grad_output.rows, input.cols, MemoryUse::workspace);
  layer.input_gradient(context, grad_output, partial);
  if (!overlaps) return partial;
  ranks.end_overlap();  // of the gathering of `input`
  ranks.follow(context.device());
  ranks.begin_overlap();
  if (context.options().sequence_parallel)
    ranks.reduce_scatter(payload_of(partial), payload_of(own_tokens(context, partial)));
  else
    ranks.all_reduce(payload_of(partial));
  layer.parameter_gradients(context, grad_output, input);
  return partial;
}

Tensor finish_sum(LayerContext& context, Tensor partial, MemoryUse use) {
  Communicator& ranks = context.world().tensor();
  if (!ranks.overlaps()) return sum_partials(context, std::move(partial), use);
  ranks.end_overlap();
  if (!context.options().sequence_parallel) return partial;
  // Not summed into this at once: it would take memory while there is least of it.
  Tensor local(context.device(), {context.local_tokens(), partial.dim(1)}, partial.type(), use);
  context.device().copy(local.data(), own_tokens(context, partial).data(), local.bytes());
  return local;
}

Tensor sum_partials(LayerContext& context, Tensor partial, MemoryUse use) {
  Communicator& ranks = context.world().tensor();
  ranks.follow(context.device());
  if (!context.options().sequence_parallel) {
    ranks.all_reduce(payload_of(partial));
    return partial;
  }
  Tensor local(context.device(), {context.local_tokens(), partial.dim(1)}, partial.type(), use);
  ranks.reduce_scatter(payload_of(partial), payload_of(local));
  return local;
}

MemoryUse use_of_partials(const LayerContext& context, MemoryUse use) {
  return context.options().sequence_parallel ? MemoryUse::workspace : use;
}

}  // namespace engine
