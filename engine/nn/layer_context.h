// LayerContext: what all layers of one rank share.
#pragma once
#include <cstdint>
#include <span>

#include "engine/comm/world.h"
#include "engine/plan/model_spec.h"
#include "engine/plan/workload.h"
#include "engine/tensor/tensor.h"

namespace engine {

// The vocabulary is padded to a multiple of this for every rank of the tensor axis.
constexpr int64_t kVocabMultiple = 128;
// Of attention weights and residual branches, in models that have dropout.
constexpr double kDropoutProbability = 0.1;

class AttentionCache;

// Virtual tokens: rows of a table T[n, hidden] that stand where a token has no id of the
// vocabulary. ids i32[1, tokens] are rows of the table, negative elsewhere.
struct VirtualTokens {
  ConstView table;
  ConstView ids;
  View gradient;  // A[n, hidden], added to
};

// Which sequences of a step's global batch pass through the layers; random numbers depend on it.
struct MicroBatch {
  int64_t step = 0;
  int64_t first_sequence = 0;
  AttentionCache* cache = nullptr;  // serving: where keys and values of earlier tokens are
  const VirtualTokens* virtual_tokens = nullptr;  // read by the first stage
};

struct LayerOptions {
  ModelSpec model;
  DType type = DType::f32;  // T: of weights and activations
  AttentionKind attention = AttentionKind::flash;
  int64_t sequences = 1;  // of a micro-batch
  int64_t seq = 0;        // tokens a sequence
  bool sequence_parallel = false;
  uint64_t seed = 1;
};

class LayerContext {
 public:
  LayerContext(Device& device, World& world, const LayerOptions& options);

  Device& device() { return device_; }
  kernels::Kernels& kernels() { return device_.kernels(); }
  World& world() { return world_; }
  const ModelSpec& model() const { return options_.model; }
  const LayerOptions& options() const { return options_; }
  DType type() const { return options_.type; }
  DType arithmetic() const { return kernels::arithmetic_of(options_.type); }
  int tp() const { return tp_; }
  int tp_rank() const { return tp_rank_; }

  // Tokens of a micro-batch, and those whose residual stream this rank holds. They stand sequence
  // by sequence; with sequence parallelism rank r has the r-th of tp equal runs.
  int64_t tokens() const { return positions_.elements(); }
  // Instead of `sequences` whole sequences: tokens at these places (below seq) of any sequences.
  void place_tokens(std::span<const int32_t> places);
  int64_t local_tokens() const { return options_.sequence_parallel ? tokens() / tp_ : tokens(); }

  // T[rows, columns] and A[1, count], uninitialised.
  Tensor matrix(int64_t rows, int64_t columns, MemoryUse use) {
    return {device_, {rows, columns}, type(), use};
  }
  Tensor statistics(int64_t count, MemoryUse use) {
    return {device_, {1, count}, arithmetic(), use};
  }

  // Off while a model is evaluated.
  void set_dropout(bool on) { dropout_ = on; }
  // Dropout of a matrix [local_tokens, hidden], and of the attention weights of one sequence (a
  // place in the micro-batch) and the heads from `first_head` on: rows (head, query), columns keys.
  kernels::Dropout residual_dropout(kernels::Purpose purpose, const MicroBatch& batch,
                                    int64_t layer) const;
  kernels::Dropout attention_dropout(const MicroBatch& batch, int64_t layer, int64_t sequence,
                                     int64_t first_head) const;

  // i32[1, tokens]: the place of each token in its sequence.
  ConstView positions() const { return positions_; }
  // A[seq, rotated part of a head]; empty without rotary positions.
  ConstView rotary_table() const { return rotary_table_; }

 private:
  Device& device_;
  World& world_;
  LayerOptions options_;
  int tp_, tp_rank_;
  bool dropout_ = true;
  Tensor positions_, rotary_table_;
};

Payload payload_of(const View& view);  // of a contiguous view

// Keys and values of the tokens that sequences have had so far, kept by whoever generates.
class AttentionCache {
 public:
  virtual ~AttentionCache() = default;
  // Adds the pass's keys and values of a layer, and sets `out` to the attention over all that each
  // token may see. The shape gives heads, head_dim and scale.
  virtual void attend(LayerContext& context, int64_t layer, ConstView query, ConstView key,
                      ConstView value, View out, const kernels::AttentionShape& shape) = 0;
};

}  // namespace engine
