// Generator: one rank's part of generating text with a model that a plan divides.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "engine/infer/frozen_model.h"
#include "engine/infer/kv_cache.h"
#include "engine/infer/scheduler.h"

namespace engine {

struct GeneratorOptions {
  ModelSpec model;
  ParallelPlan plan;  // dp = replicas, which do not know of each other
  Precision precision = Precision::f32;
  std::string checkpoint;  // empty = initial weights
  uint64_t seed = 1;       // of these
  int64_t longest = 0;     // tokens of a sequence
  int64_t batch = 1;       // sequences in flight in a replica, at most
  bool continuous = true;
  int64_t page_tokens = 16;
  int64_t kv_tokens = 0;  // room of a replica's cache; 0 = for a whole batch of the longest
  int64_t prompt_tokens = 8192;
  // The rank is alone among phantoms: it leads itself, sends what it would send as a follower, and
  // what others would choose is made up.
  bool alone = false;
};

// In every replica the rank with tp place 0 of the first stage leads: it adds requests and runs
// step() until nothing is left, then close(). The others follow() until then. With pp > 1 as many
// batches are on their way as there are stages, each a part of the sequences.
class Generator {
 public:
  // Every rank of the world constructs it together. Throws InputError and OutOfMemory.
  Generator(Device& device, World& world, const GeneratorOptions& options);

  bool leads() const { return leads_; }
  // Rows of virtual tokens, T[n, hidden] in f32, that prompts may name; on every rank, before the
  // first step.
  void set_virtual_tokens(const std::vector<float>& rows);

  // Of the leader.
  Scheduler& scheduler() { return scheduler_; }
  // Starts what can be started and brings the results of the oldest batch on its way; empty when
  // nothing was left to do.
  std::vector<Progress> step();
  void close();

  // Of the others.
  void follow();

  World& world() { return world_; }

 private:
  std::optional<std::vector<Choice>> run_stage(const StepBatch& batch);
  std::vector<Choice> choose(const StepBatch& batch, const Tensor& output);
  void share(const std::vector<int32_t>& words);
  std::vector<int32_t> receive_words();
  void send_choices(std::vector<Choice>& choices);
  std::vector<Choice> receive_choices(size_t count);

  World& world_;
  FrozenModel model_;
  bool leads_;
  int stage_, stages_;
  Scheduler scheduler_;
  KvCache cache_;
  Tensor virtual_table_;  // T[n, hidden], on the first stage
  struct OnItsWay {
    int slot;
    std::vector<Choice> choices;  // when they are known here
    size_t rows;
  };
  std::queue<OnItsWay> on_their_way_;
  int next_slot_ = 0;
};

}  // namespace engine
