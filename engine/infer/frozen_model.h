// FrozenModel: one rank's layers, with weights that are only read.
#pragma once
#include <string>
#include <vector>

#include "engine/nn/chunk.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/partition.h"

namespace engine {

// Why the engine cannot run the model without training it, one sentence each; empty = it can.
// `longest`: tokens of the longest sequence.
std::vector<std::string> serving_problems(const ModelSpec& model, const ParallelPlan& plan,
                                          Precision precision, int64_t longest);

class FrozenModel {
 public:
  // Initial weights; the options' model runs without dropout. All ranks construct it together.
  // Throws InputError with the serving_problems.
  FrozenModel(Device& device, World& world, LayerOptions options, const ParallelPlan& plan);
  // The weights of a checkpoint, written under whatever plan. Throws InputError.
  void load(const std::string& checkpoint);

  LayerContext& context() { return context_; }
  const Chunk& layers() const { return *chunk_; }
  const ChunkLayers& layer_range() const { return layer_range_; }
  const ParameterSet& parameters() const { return set_; }
  bool is_first() const { return chunk_->has_embedding(); }
  bool is_last() const { return chunk_->has_head(); }

 private:
  LayerContext context_;
  ParameterSet set_;
  ChunkLayers layer_range_;
  std::unique_ptr<Chunk> chunk_;
  Tensor weights_;  // T[1, all elements]
};

// The type of weights and activations.
DType type_of(Precision precision);

}  // namespace engine
