// PromptTuner: one rank's part of tuning virtual tokens under a model whose weights stay.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "engine/data/tokenizer.h"
#include "engine/infer/frozen_model.h"
#include "engine/infer/soft_prompt.h"
#include "engine/plan/job.h"
#include "engine/plan/schedule.h"
#include "engine/tune/prompt_encoder.h"

namespace engine {

// A text and the answer that shall follow it.
struct TuningExample {
  int64_t task = 0;  // index in the spec
  std::vector<int32_t> tokens;
  int64_t answer_tokens = 0;  // at the end
};

// Of all tasks of job.tuning. Texts that are too long lose their beginning. Throws InputError with
// the bad lines.
std::vector<TuningExample> read_tuning_examples(const Job& job, const Tokenizer& tokenizer);

struct TuningStep {
  double loss = 0;           // mean over the answers' tokens
  double gradient_norm = 0;  // before clipping
  double rate = 0;
};

// The tasks' examples run side by side in one batch, each behind its task's virtual tokens. Only
// these are tuned: nothing else has a gradient.
class PromptTuner {
 public:
  // Every rank of the world constructs it together. Throws InputError with what keeps the job from
  // running.
  PromptTuner(Device& device, World& world, const Job& job, std::vector<TuningExample> examples);

  // One update; the loss is known on all ranks, the norm on the first stage.
  TuningStep step();
  // On the first stage.
  SoftPrompt prompt(size_t task);

  FrozenModel& model() { return model_; }

 private:
  // What a micro-batch reads, kept until its backward pass.
  struct Pass {
    Tensor virtual_ids;
    VirtualTokens virtual_tokens;
    MicroBatch batch;
    Chunk::Saved saved;
  };
  int64_t table_rows() const;
  void make_encoders();
  std::vector<float> drawn_embeddings(size_t task);
  void fill_table();
  const TuningExample& example_at(int64_t place) const;
  double answer_tokens_of_step() const;
  void read_examples(int64_t micro_batch, std::vector<int32_t>& virtual_ids);
  void forward(int64_t micro_batch);
  void backward(double factor);
  double update(double rate);
  double total_loss(double tokens);

  Job job_;
  World& world_;
  std::vector<TuningExample> examples_;
  FrozenModel model_;
  std::vector<std::unique_ptr<PromptEncoder>> encoders_;  // by task, on the first stage
  std::vector<Tensor> masters_, means_, squares_;         // f32[1, parameters] by encoder
  Tensor table_, gradient_;                               // T and A[tasks · tokens, hidden]
  Tensor losses_;                                         // f64[1, 2]: the sum, one pass's
  std::vector<PipelineStep> schedule_;
  std::deque<std::unique_ptr<Pass>> passes_;
  std::vector<int32_t> ids_, targets_;
  int64_t next_step_ = 0;
};

}  // namespace engine
