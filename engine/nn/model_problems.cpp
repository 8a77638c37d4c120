// What the layers of this engine cannot run.
#include "engine/nn/model_problems.h"

#include <fmt/format.h>

namespace engine {
namespace {

using Problems = std::vector<std::string>;

void stage_problems(const ModelSpec& model, const ParallelPlan& plan, Problems& problems) {
  const std::vector<int>& shares = plan.layers_per_stage;
  if (shares.empty()) return;
  int64_t sum = 0;
  for (const int layers : shares) {
    sum += layers;
    if (layers < plan.vpp && plan.vpp > 1)
      problems.push_back(
          fmt::format("a stage of {} layers cannot hold vpp {} chunks", layers, plan.vpp));
  }
  if (static_cast<int>(shares.size()) != plan.pp || sum != model.layers)
    problems.push_back(
        fmt::format("layers_per_stage must be {} numbers that sum to {}", plan.pp, model.layers));
}

}  // namespace

std::vector<std::string> model_problems(const ModelSpec& model) {
  Problems problems = shape_problems(model);
  const auto refuse = [&](bool has, std::string_view what) {
    if (has)
      problems.push_back(fmt::format(
          "the engine does not run models with {}; predict them with another stack", what));
  };
  refuse(!model.is_dense(), "a mixture of experts");
  refuse(model.mla.kv_rank > 0, "latent attention");
  refuse(model.position == PositionKind::alibi, "ALiBi positions");
  refuse(model.head_bias, "a bias on the head");
  refuse(model.qk_norm, "norms on queries and keys");
  refuse(model.parallel_block, "attention and MLP in parallel");
  refuse(model.embedding_norm, "a norm behind the embedding");
  refuse(!model.final_norm, "no norm before the head");
  refuse(model.attention_sinks, "attention sinks");
  refuse(model.norms_per_layer != 2, "other than two norms a layer");
  refuse(model.embedding_width > 0 && model.embedding_width != model.hidden,
         "an embedding narrower than the layers");
  refuse(model.sliding_window > 0, "a sliding window");
  return problems;
}

std::vector<std::string> division_problems(const ModelSpec& model, const ParallelPlan& plan) {
  Problems problems;
  const auto divides = [&](std::string_view what, int64_t size, std::string_view by, int64_t part) {
    if (size % part != 0)
      problems.push_back(fmt::format("{} {} must be a multiple of {} {}", what, size, by, part));
  };
  divides("heads", model.heads, "tp", plan.tp);
  divides("ffn_hidden", model.ffn_hidden, "tp", plan.tp);
  if (plan.tp > model.kv_heads)
    divides("tp", plan.tp, "kv_heads", model.kv_heads);
  else
    divides("kv_heads", model.kv_heads, "tp", plan.tp);
  if (plan.layers_per_stage.empty())
    divides("layers", model.layers, "pp · vpp", plan.pp * plan.vpp);
  stage_problems(model, plan, problems);
  return problems;
}

}  // namespace engine
