// Consecutive layers on one pipeline stage, with the embedding or the head at the model's ends.
#include "engine/nn/chunk.h"

namespace engine {
namespace {

Tensor to_device(LayerContext& context, const int32_t* values) {
  Tensor tensor(context.device(), {1, context.tokens()}, DType::i32, MemoryUse::activation);
  context.device().copy_to_device(tensor.data(), values, tensor.bytes());
  return tensor;
}

BlockRecompute recompute_of(const Recompute& recompute, int layer) {
  if (recompute.mode == Recompute::Mode::none) return BlockRecompute::none;
  if (recompute.mode == Recompute::Mode::selective) return BlockRecompute::core;
  return recompute.layers == 0 || layer < recompute.layers ? BlockRecompute::all
                                                           : BlockRecompute::none;
}

}  // namespace

Chunk::Chunk(const LayerContext& context, ParameterSet& set, const ChunkShape& shape,
             const Recompute& recompute) {
  if (shape.embedding) embedding_.emplace(context, set);
  for (int i = 0; i < shape.layers.count; ++i)
    blocks_.emplace_back(context, set, shape.layers.first + i, recompute_of(recompute, i));
  const bool tied = context.model().tied_embeddings;
  if (tied && shape.embedding) tied_table_ = embedding_->table();
  if (shape.head) head_.emplace(context, set, tied_table_);
  if (tied && shape.head) tied_table_ = head_->table();
}

// A tied head on one stage with the embedding uses its table too.
std::vector<int64_t> Chunk::head_units() const {
  if (embedding_ && head_->table() == embedding_->table())
    return {head_->unit(), embedding_->unit()};
  return {head_->unit()};
}

Tensor Chunk::forward(LayerContext& context, ParameterAccess& access, Tensor input,
                      const int32_t* ids, const int32_t* targets, View loss,
                      const MicroBatch& batch, Saved& saved) const {
  if (embedding_) {
    saved.ids = to_device(context, ids);
    access.begin_forward(embedding_->unit());
    input = embedding_->forward(context, saved.ids, batch, use_before(0));
    access.end_forward(embedding_->unit());
  }
  saved.blocks.resize(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    access.begin_forward(blocks_[i].unit());
    input =
        blocks_[i].forward(context, std::move(input), batch, saved.blocks[i], use_before(i + 1));
    access.end_forward(blocks_[i].unit());
  }
  if (!head_) return input;
  for (const int64_t unit : head_units()) access.begin_forward(unit);
  head_->forward(context, std::move(input), to_device(context, targets), loss, saved.head);
  for (const int64_t unit : head_units()) access.end_forward(unit);
  return {};
}

Tensor Chunk::infer(LayerContext& context, Tensor input, ConstView ids,
                    const MicroBatch& batch) const {
  if (embedding_) input = embedding_->forward(context, ids, batch, MemoryUse::activation);
  for (const Block& block : blocks_) {
    Block::Saved dropped;
    input = block.forward(context, std::move(input), batch, dropped, MemoryUse::activation);
  }
  return input;
}

Tensor Chunk::backward(LayerContext& context, ParameterAccess& access, Tensor grad, double factor,
                       const MicroBatch& batch, Saved saved) const {
  if (head_) {
    for (const int64_t unit : head_units()) access.begin_backward(unit);
    grad = head_->backward(context, factor, std::move(saved.head));
    for (const int64_t unit : head_units()) access.end_backward(unit);
  }
  for (size_t i = blocks_.size(); i-- > 0;) {
    access.begin_backward(blocks_[i].unit());
    grad = blocks_[i].backward(context, grad, batch, std::move(saved.blocks[i]));
    access.end_backward(blocks_[i].unit());
  }
  if (!embedding_) return grad;
  access.begin_backward(embedding_->unit());
  embedding_->backward(context, grad, saved.ids, batch);
  access.end_backward(embedding_->unit());
  return {};
}

}  // namespace engine
