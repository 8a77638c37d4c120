// How activations enter and leave the part of a layer that the tensor axis divides.
#include "engine/nn/region.h"

#include "engine/base/errors.h"

namespace engine {

Tensor gather_tokens(LayerContext& context, const Tensor& local) {
  if (!context.options().sequence_parallel) return local.reshaped(local.shape());
  Tensor whole(context.device(), {context.tokens(), local.dim(1)}, local.type(),
               MemoryUse::communication);
  context.world().tensor().follow(context.device());
  context.world().tensor().all_gather(payload_of(local), payload_of(whole));
  return whole;
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
