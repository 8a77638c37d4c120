// Partition: which layers each pipeline rank and each of its model chunks holds.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/plan/parallel_plan.h"

namespace engine {

struct ChunkLayers {
  int first = 0;  // global index of the first layer
  int count = 0;
};

class Partition {
 public:
  // Requires layers that the plan can place (see tuner/space for the rules); throws
  // std::logic_error. With vpp chunks on a rank, virtual stage v · pp + stage is chunk v of
  // `stage`. A rank whose layers are no multiple of vpp has its lighter chunk where the embedding
  // or the head sits: first chunk of the first stage, last chunk of every other.
  Partition(const ParallelPlan& plan, int64_t model_layers);

  int stages() const { return stages_; }
  int chunks() const { return chunks_; }
  int layers_on(int stage) const;
  const ChunkLayers& chunk(int stage, int chunk) const {
    return layers_[static_cast<size_t>(chunk * stages_ + stage)];
  }
  static bool has_embedding(int stage, int chunk) { return stage == 0 && chunk == 0; }
  bool has_head(int stage, int chunk) const { return stage == stages_ - 1 && chunk == chunks_ - 1; }

 private:
  int stages_;
  int chunks_;
  std::vector<ChunkLayers> layers_;  // by virtual stage
};

// Layers on each rank: the plan's own list, or equal shares.
std::vector<int> layers_per_stage(const ParallelPlan& plan, int64_t model_layers);

}  // namespace engine
