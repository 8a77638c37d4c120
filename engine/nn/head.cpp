// Final norm, logits over this rank's vocabulary, and the cross-entropy over all of it.
#include "engine/nn/head.h"

#include "engine/nn/region.h"

namespace engine {

Head::Head(const LayerContext& context, ParameterSet& set, const Parameter* embedding)
    : unit_(set.begin_unit()), table_(embedding) {
  ModelParameters parameters(context, set);
  if (table_ == nullptr)
    table_ = context.model().tied_embeddings ? parameters.embedding(true) : parameters.head();
  const Parameter* gain = parameters.final_norm_gain();
  norm_.emplace(*gain, parameters.final_norm_bias());
  linear_.weight = {table_};
}

View Head::in_vocabulary(const View& logits) const {
  return logits.columns(0, logits.cols - padding_rows(*table_));
}

Tensor Head::logits(LayerContext& context, const Tensor& input) const {
  Norm::Saved norm;
  norm_->forward(context, input, norm, MemoryUse::workspace);
  Tensor logits(context.device(), {input.dim(0), table_->rows}, context.arithmetic(),
                MemoryUse::workspace);
  linear_.forward(context, norm.output, logits);
  return logits;
}

void Head::forward(LayerContext& context, Tensor input, Tensor targets, View loss,
                   Saved& saved) const {
  constexpr MemoryUse kSaved = MemoryUse::activation;
  const int64_t tokens = context.tokens();
  kernels::Kernels& kernels = context.kernels();
  Communicator& ranks = context.world().tensor();
  saved.input = std::move(input);
  saved.targets = std::move(targets);
  norm_->forward(context, saved.input, saved.norm, kSaved);
  saved.logits = context.matrix(tokens, table_->rows, kSaved);
  linear_.forward(context, gather_tokens(context, saved.norm.output), saved.logits);

  const View logits = in_vocabulary(saved.logits);
  saved.top = context.statistics(tokens, kSaved);
  saved.sums = context.statistics(tokens, kSaved);
  const Tensor chosen = context.statistics(tokens, MemoryUse::workspace);
  kernels.cross_entropy_sums(logits, saved.targets, table_->global_row, saved.top, saved.sums,
                             chosen);
  if (ranks.size() > 1) {
    const Tensor own_top = context.statistics(tokens, MemoryUse::workspace);
    kernels.copy(saved.top, own_top);
    ranks.follow(context.device());
    ranks.all_reduce(payload_of(saved.top), Reduction::max);
    kernels.cross_entropy_rescale(saved.sums, own_top, saved.top);
    ranks.follow(context.device());
    ranks.all_reduce(payload_of(saved.sums));
    ranks.all_reduce(payload_of(chosen));
  }
  kernels.cross_entropy_losses(saved.top, saved.sums, chosen, saved.targets, chosen);
  kernels.total(chosen, loss);
}

Tensor Head::backward(LayerContext& context, double factor, Saved saved) const {
  kernels::Kernels& kernels = context.kernels();
  const View logits = in_vocabulary(saved.logits);
  kernels.cross_entropy_backward(logits, saved.top, saved.sums, saved.targets, table_->global_row,
                                 factor);
  const View all = saved.logits;
  if (logits.cols < all.cols) kernels.fill(all.columns(logits.cols, all.cols - logits.cols), 0);
  linear_.parameter_gradients(context, saved.logits, gather_tokens(context, saved.norm.output));
  Tensor partial = context.matrix(context.tokens(), context.model().hidden, MemoryUse::workspace);
  linear_.input_gradient(context, saved.logits, partial);
  saved.logits.reset();
  Tensor grad = sum_partials(context, std::move(partial), MemoryUse::workspace);
  norm_->backward(context, grad, saved.input, saved.norm, {});
  return grad;
}

}  // namespace engine
