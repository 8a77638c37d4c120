// PromptEncoder: where a task's virtual tokens come from while they are tuned.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/plan/tuning.h"

namespace engine {

// Works in host memory, in f32: a few rows, whose cost vanishes beside the model's. All parameters
// stand in one vector, as the optimizer takes them; what encodes is dropped after the tuning.
class PromptEncoder {
 public:
  virtual ~PromptEncoder() = default;
  int64_t tokens() const { return tokens_; }
  int64_t hidden() const { return hidden_; }
  std::vector<float>& parameters() { return parameters_; }

  // The virtual tokens [tokens, hidden], row by row.
  virtual std::vector<float> forward() = 0;
  // From the gradient of what the last forward() gave to that of the parameters.
  virtual std::vector<float> backward(std::span<const float> grad) = 0;

 protected:
  PromptEncoder(int64_t tokens, int64_t hidden) : tokens_(tokens), hidden_(hidden) {}
  int64_t tokens_, hidden_;
  std::vector<float> parameters_;
};

// `initial` [tokens, hidden]: rows of the model's embedding, which a table begins with and an
// encoder reads (and tunes, too). `seed` draws the encoder's weights.
//   table  the virtual tokens themselves
//   mlp    two layers with a ReLU between them, onto each row, added to it
//   lstm   a bidirectional LSTM over the rows, then the two layers on its states
std::unique_ptr<PromptEncoder> make_prompt_encoder(PromptSource source, std::vector<float> initial,
                                                   int64_t hidden, uint64_t seed);

}  // namespace engine
