// What this engine does not train, and why.
#include <fmt/format.h>

#include "engine/plan/partition.h"
#include "engine/train/trainer.h"

namespace engine {
namespace {

using Problems = std::vector<std::string>;

void model_problems(const ModelSpec& model, Problems& problems) {
  for (const std::string& problem : shape_problems(model)) problems.push_back(problem);
  const auto refuse = [&](bool has, std::string_view what) {
    if (has)
      problems.push_back(fmt::format(
          "the engine does not train models with {}; predict them with another stack", what));
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
}

void divide_problems(const ModelSpec& model, const ParallelPlan& plan, const Workload& workload,
                     Problems& problems) {
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
  divides("gbs", plan.gbs, "mbs · dp", plan.mbs * plan.dp);
  if (plan.sp) divides("mbs · seq", plan.mbs * workload.seq, "tp", plan.tp);
  if (plan.layers_per_stage.empty())
    divides("layers", model.layers, "pp · vpp", plan.pp * plan.vpp);
}

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

void plan_problems(const ParallelPlan& plan, Problems& problems) {
  const auto refuse = [&](bool is, std::string_view sentence) {
    if (is) problems.emplace_back(sentence);
  };
  refuse(plan.cp > 1, "the engine does not split a sequence over ranks; use cp 1");
  refuse(plan.ep > 1, "the engine has no experts to divide; use ep 1");
  refuse(plan.vpp > 1 && plan.pp == 1, "chunks need a pipeline; use vpp 1 or pp 2 and more");
  refuse(plan.zero >= 2 && plan.pp > 1, "ZeRO 2 and 3 need pp 1; use ZeRO 1 with a pipeline");
  refuse(plan.zero < 0 || plan.zero > 3, "zero must be 0, 1, 2 or 3");
  if (plan.vpp > 1 && plan.pp > 1 && plan.micro_batches() < plan.pp)
    problems.push_back(fmt::format("vpp {} needs at least pp {} micro-batches a replica, not {}",
                                   plan.vpp, plan.pp, plan.micro_batches()));
}

}  // namespace

std::vector<std::string> training_problems(const ModelSpec& model, const ParallelPlan& plan,
                                           const Workload& workload) {
  Problems problems;
  model_problems(model, problems);
  if (!problems.empty()) return problems;
  divide_problems(model, plan, workload, problems);
  stage_problems(model, plan, problems);
  plan_problems(plan, problems);
  if (workload.precision != Precision::f32 && workload.precision != Precision::bf16)
    problems.push_back(
        fmt::format("the engine trains in f32 and bf16, not in {}", name_of(workload.precision)));
  if (model.position == PositionKind::learned && workload.seq > model.positions)
    problems.push_back(fmt::format("seq {} is longer than the model's {} positions", workload.seq,
                                   model.positions));
  if (workload.gbs > 0 && workload.gbs != plan.gbs)
    problems.push_back(
        fmt::format("gbs is {} in the plan and {} in the workload", plan.gbs, workload.gbs));
  return problems;
}

}  // namespace engine
