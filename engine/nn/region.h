// Region: how activations enter and leave the part of a layer that the tensor axis divides.
#pragma once
#include "engine/nn/linear.h"

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

// In the backward pass two messages run beside products, where ranks overlap: the region's input
// is gathered again while gradients go back to its first layer (Korthikanti et al. 2022, section
// 4.2.2), and the sum is taken while that layer's parameter gradients are computed (as Megatron-LM
// does). The three are called in this order, and nothing else of the tensor axis between them.

// As gather_tokens, but not there before first_layer_backward().
Tensor start_gather(LayerContext& context, const Tensor& local);
// From the gradient of the first layer's output to that of its input: partial sums T[tokens, n],
// which nobody touches before finish_sum().
Tensor first_layer_backward(LayerContext& context, const Linear& layer, ConstView grad_output,
                            ConstView input);
// As sum_partials, of what that returned.
Tensor finish_sum(LayerContext& context, Tensor partial, MemoryUse use);

// What `partial` must be allocated as for the sum to be memory `use`.
MemoryUse use_of_partials(const LayerContext& context, MemoryUse use);

}  // namespace engine
