// ModelParameters: adds the parameters of a model's parts, named and sliced for this rank.
#pragma once
#include <string>

#include "engine/nn/layer_context.h"
#include "engine/nn/parameter.h"

namespace engine {

// The parts of a layer that have a weight and perhaps a bias.
enum class Part : uint8_t {
  query,
  key,
  value,
  attention_out,
  gate,
  up,
  down,
  attention_norm,
  mlp_norm,
};
constexpr int kParts = 9;

// Heads of this rank: query heads, and the KV heads they share.
struct RankHeads {
  int64_t first = 0, count = 0;
  int64_t kv_first = 0, kv_count = 0;
  int64_t kv_ranks = 1;  // ranks that hold the same KV heads
};
RankHeads rank_heads(const ModelSpec& model, int tp, int tp_rank);

// Parameter::ordinal counts up to this.
int64_t ordinal_count(const ModelSpec& model);

// Weights start normal with deviation 0.02, projections into the residual stream with 0.02 /
// √(2 · layers) (Radford et al. 2019, section 2.3); biases 0 and norm gains 1. Names are those of
// GPT-2's checkpoints for models with learned positions and no gate, else those of Llama's.
class ModelParameters {
 public:
  ModelParameters(const LayerContext& context, ParameterSet& set)
      : context_(context), set_(set), model_(context.model()) {}

  // Of the unit begun last. Biases: null where the model has none. A query's, key's or value's rows
  // are this rank's heads; other matrices but `attention_out` and `down`, which are split by
  // columns, are split by rows.
  const Parameter* weight(int64_t layer, Part part);
  const Parameter* bias(int64_t layer, Part part);

  // [vocab / tp, hidden]; `tied_copy` marks the head's copy on the last of several stages.
  const Parameter* embedding(bool tied_copy);
  const Parameter* positions();  // [positions, hidden]
  const Parameter* final_norm_gain();
  const Parameter* final_norm_bias();  // null for an RMS norm
  const Parameter* head();             // untied

 private:
  Parameter vocabulary_slice(const std::string& name, int64_t ordinal) const;
  Parameter norm_vector(const std::string& name, int64_t ordinal, bool is_bias) const;
  const Parameter* add(Parameter parameter);
  const LayerContext& context_;
  ParameterSet& set_;
  const ModelSpec& model_;
};

// Fills the weight.
void initialise(LayerContext& context, const Parameter& parameter);

}  // namespace engine
