// Which layers each pipeline rank and chunk holds.
#include "engine/plan/partition.h"

#include <numeric>

#include "engine/base/errors.h"

namespace engine {

std::vector<int> layers_per_stage(const ParallelPlan& plan, int64_t model_layers) {
  if (!plan.layers_per_stage.empty()) return plan.layers_per_stage;
  expect(model_layers % plan.pp == 0, "layers that pp divides, or a list of layers per stage");
  return std::vector<int>(static_cast<size_t>(plan.pp), static_cast<int>(model_layers / plan.pp));
}

Partition::Partition(const ParallelPlan& plan, int64_t model_layers)
    : stages_(plan.pp), chunks_(plan.vpp), layers_(static_cast<size_t>(plan.pp * plan.vpp)) {
  const std::vector<int> shares = engine::layers_per_stage(plan, model_layers);
  expect(static_cast<int>(shares.size()) == stages_, "one entry of layers_per_stage a stage");
  expect(std::accumulate(shares.begin(), shares.end(), int64_t{0}) == model_layers,
         "layers_per_stage that sum to the layers of the model");
  for (int stage = 0; stage < stages_; ++stage) {
    const int share = shares[static_cast<size_t>(stage)];
    const int most = (share + chunks_ - 1) / chunks_;
    const int missing = most * chunks_ - share;
    expect(most - missing >= 0, "chunks that differ in one of them only");
    const int lighter = stage == 0 ? 0 : chunks_ - 1;
    for (int chunk = 0; chunk < chunks_; ++chunk)
      layers_[static_cast<size_t>(chunk * stages_ + stage)].count =
          chunk == lighter ? most - missing : most;
  }
  int first = 0;
  for (ChunkLayers& chunk : layers_) {
    chunk.first = first;
    first += chunk.count;
  }
}

int Partition::layers_on(int stage) const {
  int layers = 0;
  for (int chunk = 0; chunk < chunks_; ++chunk) layers += this->chunk(stage, chunk).count;
  return layers;
}

}  // namespace engine
