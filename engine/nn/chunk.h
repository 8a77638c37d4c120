// Chunk: consecutive layers on one pipeline stage, with the embedding or the head at the model's
// ends.
#pragma once
#include <optional>
#include <vector>

#include "engine/nn/block.h"
#include "engine/nn/embedding.h"
#include "engine/nn/head.h"
#include "engine/plan/partition.h"

namespace engine {

// Brings a unit's parameters before a layer uses them, where ranks divide them (ZeRO 2 and 3).
class ParameterAccess {
 public:
  virtual ~ParameterAccess() = default;
  virtual void begin_forward(int64_t unit) = 0;
  virtual void end_forward(int64_t unit) = 0;
  virtual void begin_backward(int64_t unit) = 0;
  virtual void end_backward(int64_t unit) = 0;
};

struct ChunkShape {
  ChunkLayers layers;
  bool embedding = false;
  bool head = false;
};

class Chunk {
 public:
  struct Saved {
    Tensor ids;  // i32[1, tokens], with the embedding
    std::vector<Block::Saved> blocks;
    Head::Saved head;
  };

  Chunk(const LayerContext& context, ParameterSet& set, const ChunkShape& shape,
        const Recompute& recompute);

  bool has_embedding() const { return embedding_.has_value(); }
  bool has_head() const { return head_.has_value(); }
  // What the input counts as: memory that is saved, unless nothing here keeps it.
  MemoryUse input_use() const { return use_before(0); }
  // The table of a tied model at its ends, whose gradient is complete when both have added to it;
  // null elsewhere.
  const Parameter* tied_table() const { return tied_table_; }

  // input T[local_tokens, hidden], or empty with the embedding; ids and targets are host memory of
  // `tokens` values, read at the ends. Returns the output, or nothing with the head, which sets
  // loss f64[1, 1].
  Tensor forward(LayerContext& context, ParameterAccess& access, Tensor input, const int32_t* ids,
                 const int32_t* targets, View loss, const MicroBatch& batch, Saved& saved) const;
  // The same up to the head and without what a backward pass needs: input or ids i32[1, tokens] →
  // T[tokens, hidden].
  Tensor infer(LayerContext& context, Tensor input, ConstView ids, const MicroBatch& batch) const;
  const Head& head() const { return *head_; }
  const Parameter* embedding_table() const { return embedding_->table(); }
  // grad T[local_tokens, hidden], or empty with the head, whose loss counts `factor` times. Returns
  // the gradient of the input, or nothing with the embedding.
  Tensor backward(LayerContext& context, ParameterAccess& access, Tensor grad, double factor,
                  const MicroBatch& batch, Saved saved) const;

 private:
  // What the next layer or the head keeps is saved; what is sent away is not.
  MemoryUse use_before(size_t block) const {
    return block < blocks_.size() || head_ ? MemoryUse::activation : MemoryUse::workspace;
  }
  std::vector<int64_t> head_units() const;
  std::optional<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::optional<Head> head_;
  const Parameter* tied_table_ = nullptr;
};

}  // namespace engine
