// KvCache: the keys and values of the sequences in flight, in pages, for one rank's layers.
#pragma once
#include <vector>

#include "engine/infer/step_batch.h"
#include "engine/nn/layer_context.h"
#include "engine/plan/partition.h"

namespace engine {

// Bytes of all layers of a rank: 2 · layers · pages · page_tokens · kv_heads / tp · head_dim
// elements, counted as MemoryUse::kv_cache.
class KvCache final : public AttentionCache {
 public:
  KvCache(LayerContext& context, const ChunkLayers& layers, int64_t pages, int64_t page_tokens);

  // Before a pass: which sequence and place each of its tokens has.
  void begin_pass(LayerContext& context, const StepBatch& batch);
  void attend(LayerContext& context, int64_t layer, ConstView query, ConstView key, ConstView value,
              View out, const kernels::AttentionShape& shape) override;

 private:
  // Tokens [first, first + count) of the pass: a prompt from its beginning, whose attention needs
  // no cache, or tokens of any sequences.
  struct Run {
    int64_t first = 0, count = 0;
    bool whole_prompt = false;
  };
  View of_layer(const Tensor& tensor, int64_t layer) const;
  void add_run(int64_t count, bool whole_prompt);

  ChunkLayers layers_;
  int64_t page_tokens_;
  Tensor keys_, values_;  // T[layers · pages · page_tokens, kv_heads / tp · head_dim]
  // Of the pass, as PagedAttention reads them; rows_ i32[1, tokens] are the places in the cache.
  Tensor tables_, sequences_, visible_, rows_;
  std::vector<Run> runs_;
};

}  // namespace engine
