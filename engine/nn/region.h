// Region: how activations enter and leave the part of a layer that the tensor axis divides.
#pragma once
#include "engine/nn/layer_context.h"

namespace engine {

// Inside a region every rank has all tokens and a share of the work, so that results are partial
// sums; outside, activations are whole, and with sequence parallelism divided by tokens
// (Korthikanti et al. 2022, section 4.2.2). The two functions are each other's adjoint: a layer
// enters by `gather_tokens` and leaves by `sum_partials`, its gradient the other way round.

// [local_tokens, n] → [tokens, n]; a view of `local` without sequence parallelism.
Tensor gather_tokens(LayerContext& context, const Tensor& local);

// Partial sums [tokens, n] → their sum [local_tokens, n], of memory `use`; without sequence
// parallelism in place.
Tensor sum_partials(LayerContext& context, Tensor partial, MemoryUse use);

// What `partial` must be allocated as for the sum to be memory `use`.
MemoryUse use_of_partials(const LayerContext& context, MemoryUse use);

}  // namespace engine
