// Trainer: one rank's part of training a model under a plan.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "engine/data/batches.h"
#include "engine/nn/chunk.h"
#include "engine/plan/job.h"
#include "engine/plan/schedule.h"
#include "engine/train/optimizer.h"

namespace engine {

// Why this engine cannot train the job's model under its plan, one sentence each; empty = it can.
std::vector<std::string> training_problems(const ModelSpec& model, const ParallelPlan& plan,
                                           const Workload& workload);

struct StepResult {
  double loss = 0;           // mean over the tokens of the global batch
  double gradient_norm = 0;  // before clipping
  double rate = 0;
};

class Trainer {
 public:
  // Every rank of the world constructs it at the same time, with initial weights; throws InputError
  // with the training_problems. `job` gives model, plan, workload, optimizer, steps and seed; its
  // world is the grid's. Where the other ranks are phantoms the loss and the norm mean nothing.
  Trainer(Device& device, World& world, const Job& job, const Batches& batches);

  // One update of the weights; equal results on all ranks.
  StepResult step();
  // The mean loss over the first `count` global batches of `batches`, without dropout; changes
  // nothing. Equal on all ranks.
  double evaluate(const Batches& batches, int64_t count);
  // The number of the next step: how many were made, here or before a checkpoint.
  int64_t next_step() const { return next_step_; }
  void continue_at(int64_t step) { next_step_ = step; }

  const Job& job() const { return job_; }
  World& world() { return world_; }
  Device& device() { return context_.device(); }
  ShardedParameters& storage() { return *storage_; }
  Optimizer& optimizer() { return *optimizer_; }

 private:
  void forward(int chunk, int64_t micro_batch);
  void backward(int chunk, int64_t micro_batch);
  void read_tokens(int64_t micro_batch);
  MicroBatch micro_batch_of(int64_t index) const;
  Tensor receive(Communicator& ranks, int from, MemoryUse use);
  void send(Communicator& ranks, const Tensor& tensor, int to);
  StepResult finish();

  Job job_;
  World& world_;
  const Batches& batches_;
  const Batches* source_;     // of the global batch in work, which begins at
  int64_t first_sample_ = 0;  // this sample
  LayerContext context_;
  ParameterSet set_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<ShardedParameters> storage_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<PipelineStep> schedule_;
  std::vector<std::deque<Chunk::Saved>> saved_;  // by chunk, oldest micro-batch first
  Tensor sums_;  // f64[1, ordinal_count + 2]: squares by ordinal, the loss, one micro-batch's loss
  std::vector<int32_t> ids_, targets_, sequence_;
  int64_t next_step_ = 0;
};

}  // namespace engine
