// The experts of a model in a Hugging Face config.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/plan/hf_reading.h"

namespace engine {
namespace {

constexpr HfKeys kExpertKeys = {"num_experts", "num_local_experts", "n_routed_experts"};
constexpr HfKeys kPerTokenKeys = {"num_experts_per_tok", "experts_per_token", "top_k_experts",
                                  "moe_topk"};
constexpr HfKeys kFfnKeys = {"moe_intermediate_size", "intermediate_size"};
constexpr HfKeys kStepKeys = {"decoder_sparse_step", "interleave_moe_layer_step"};

// Layers with a dense MLP, by whichever of the conventions the file uses.
int64_t count_dense_layers(ObjectReader& in, int64_t layers) {
  const int64_t first = in.integer("first_k_dense_replace", {0, layers}, 0);
  const bool by_list = in.value("moe_layer_freq").is_array();
  const IntegerRange steps{1, 10'000};
  const int64_t frequency = by_list ? 1 : in.integer("moe_layer_freq", steps, 1);
  const int64_t step = integer_of(in, kStepKeys, steps, 1);
  std::vector<bool> dense(static_cast<size_t>(layers), false);
  for (const int64_t layer : in.integers("mlp_only_layers", {0, 10'000}))
    if (layer < layers) dense[static_cast<size_t>(layer)] = true;
  const auto listed = by_list ? in.integers("moe_layer_freq", {0, 1}) : std::vector<int64_t>();
  for (size_t layer = 0; layer < std::min(dense.size(), listed.size()); ++layer)
    if (listed[layer] == 0) dense[layer] = true;
  for (int64_t layer = 0; layer < layers; ++layer)
    if (layer < first || layer % frequency != 0 || (layer + 1) % step != 0)
      dense[static_cast<size_t>(layer)] = true;
  return std::count(dense.begin(), dense.end(), true);
}

}  // namespace

bool speaks_of_experts(const ObjectReader& in) { return first_of(in, kExpertKeys).has_value(); }

ExpertSpec read_hf_experts(ObjectReader& in, const HfFamily& family, int64_t layers) {
  ExpertSpec moe;
  moe.experts = integer_of(in, kExpertKeys, {0, 100'000}, 0);
  if (moe.experts == 0) return moe;
  moe.per_token = integer_of(in, kPerTokenKeys, {1, moe.experts});
  moe.ffn_hidden = integer_of(in, kFfnKeys, {1, 10'000'000});
  moe.shared_hidden = in.integer("n_shared_experts", {0, 1'000}, 0) * moe.ffn_hidden;
  if (in.has("shared_expert_intermediate_size")) {
    moe.shared_hidden = in.integer("shared_expert_intermediate_size", {0, 10'000'000});
    moe.shared_gate = moe.shared_hidden > 0;
  }
  if (family.type == "llama4_text") moe.shared_hidden = moe.ffn_hidden;
  moe.router_bias = family.router_bias;
  if (in.has("topk_method")) moe.router_bias = in.text("topk_method") == "noaux_tc";
  moe.expert_biases = family.type == "gpt_oss";
  moe.dense_layers = count_dense_layers(in, layers);
  return moe;
}

}  // namespace engine
