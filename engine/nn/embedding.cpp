// Token table, divided by vocabulary, learned positions and dropout.
#include "engine/nn/embedding.h"

#include "engine/nn/region.h"

namespace engine {
namespace {

// The places of the tokens whose residual stream this rank holds, and the row of place 0.
ConstView local_positions(const LayerContext& context) {
  const int64_t first =
      context.options().sequence_parallel ? context.tp_rank() * context.local_tokens() : 0;
  return context.positions().columns(first, context.local_tokens());
}
// The table's first rows may be spare: the row of a place is behind them.
int64_t first_place(const LayerContext& context) { return -context.model().extra_position_rows; }

}  // namespace

Embedding::Embedding(const LayerContext& context, ParameterSet& set) : unit_(set.begin_unit()) {
  ModelParameters parameters(context, set);
  table_ = parameters.embedding(false);
  if (context.model().position == PositionKind::learned) positions_ = parameters.positions();
}

Tensor Embedding::forward(LayerContext& context, ConstView ids, const MicroBatch& batch,
                          MemoryUse out_use) const {
  Tensor partial =
      context.matrix(context.tokens(), context.model().hidden, use_of_partials(context, out_use));
  context.kernels().embedding_forward(table_->weight, table_->global_row, ids, partial, false);
  const VirtualTokens* extra = batch.virtual_tokens;
  if (extra != nullptr && context.tp_rank() == 0)  // once in the sum over the ranks
    context.kernels().embedding_forward(extra->table, 0, extra->ids, partial, true);
  Tensor out = sum_partials(context, std::move(partial), out_use);
  if (positions_ != nullptr)
    context.kernels().embedding_forward(positions_->weight, first_place(context),
                                        local_positions(context), out, true);
  const auto dropout = context.residual_dropout(kernels::Purpose::embedding_dropout, batch, 0);
  if (dropout.active()) context.kernels().dropout(out, out, dropout);
  return out;
}

void Embedding::backward(LayerContext& context, const Tensor& grad, ConstView ids,
                         const MicroBatch& batch) const {
  const auto dropout = context.residual_dropout(kernels::Purpose::embedding_dropout, batch, 0);
  Tensor dropped;
  if (dropout.active()) {
    dropped = context.matrix(grad.dim(0), grad.dim(1), MemoryUse::workspace);
    context.kernels().dropout(grad, dropped, dropout);
  }
  const Tensor& grad_sum = dropout.active() ? dropped : grad;
  if (positions_ != nullptr && !positions_->is_frozen())
    context.kernels().embedding_backward(grad_sum, local_positions(context), first_place(context),
                                         positions_->gradient);
  const Tensor all = gather_tokens(context, grad_sum);
  if (!table_->is_frozen())
    context.kernels().embedding_backward(all, ids, table_->global_row, table_->gradient);
  if (const VirtualTokens* extra = batch.virtual_tokens; extra != nullptr)
    context.kernels().embedding_backward(all, extra->ids, 0, extra->gradient);
}

}  // namespace engine
