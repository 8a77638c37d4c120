// Bytes by use of every pipeline stage.
#include "tuner/model/memory_model.h"

#include <algorithm>
#include <vector>

#include "engine/plan/partition.h"
#include "engine/plan/schedule.h"
#include "tuner/model/saved_tensor.h"

namespace tuner {

using engine::MemoryUse;
using engine::ParallelPlan;
using engine::PipelineShape;
using engine::Recompute;
using engine::StageMemory;

namespace {

PipelineShape shape_of(const ParallelPlan& plan) {
  return {plan.pp, plan.vpp, plan.micro_batches()};
}

// Micro-batches whose first chunk a rank of the first stage holds at once.
int64_t first_chunk_in_flight(const PipelineShape& shape) {
  if (shape.chunks == 1) return engine::most_in_flight(shape, 0);
  // Just before the first chunk's first backward pass: a whole group, and what has begun of the
  // next.
  const int64_t group = engine::interleave_group(shape);
  const int64_t next = std::min(group, (shape.chunks - 2) * group + 2 * shape.stages - 1);
  return std::min(shape.micro_batches, group + next);
}

}  // namespace

double saved_chunk_bytes(const RankMemory& rank, const Recompute& recompute, int layers) {
  switch (recompute.mode) {
    case Recompute::Mode::none:
      return layers * rank.saved_none;
    case Recompute::Mode::selective:
      return layers * rank.saved_selective;
    case Recompute::Mode::full:
      break;
  }
  const int full = recompute.layers == 0 ? layers : std::min(layers, recompute.layers);
  return full * rank.saved_full + (layers - full) * rank.saved_none;
}

// What stands on one stage: layers, ends of the model, and activations in flight (bytes).
struct MemoryModel::StageLoad {
  int stage = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;
  int64_t chunks_in_flight = 0;
  double layers_a_chunk = 0;
  double activation = -1;  // < 0: chunks_in_flight equal chunks
};

MemoryModel::MemoryModel(const Scenario& scenario) : scenario_(&scenario) {}

RankMemory MemoryModel::rank_memory(const ParallelPlan& plan) const {
  const engine::ModelSpec& model = scenario_->model;
  const Stack& stack = scenario_->stack;
  const engine::Workload& work = scenario_->workload;
  const double tokens = static_cast<double>(plan.mbs * work.seq) / plan.cp;
  const double storage = engine::storage_bytes(work.precision);
  const double hidden = static_cast<double>(model.hidden);
  const int64_t vocab = scenario_->vocab(plan.tp);
  const double logits = tokens * static_cast<double>(vocab) / plan.tp;

  auto saved = [&](const std::vector<SavedTensor>& rows, bool core) {
    return saved_bytes(applicable(rows, model, work.attention), model, work, plan, core);
  };
  RankMemory rank;
  rank.parameters = engine::rank_parameters(model, plan.tp, vocab);
  rank.saved_none = saved(stack.saved, true);
  rank.saved_selective = saved(stack.saved, false);
  rank.saved_full = saved(stack.saved_full, true);
  rank.embedding_saved = saved(stack.saved_embedding, true);
  rank.head_saved = saved(stack.saved_head, true) +
                    logits * (stack.logit_bytes > 0 ? stack.logit_bytes : storage);
  rank.output_saved = saved(stack.saved_output, true);

  const int64_t kv = std::max<int64_t>(model.kv_heads, plan.tp) * model.head_dim;
  const int64_t widest =
      std::max(model.q_width() + 2 * kv, model.ffn_hidden * (model.gated_mlp ? 2 : 1));
  rank.layer_workspace = stack.workspace_layers * storage * tokens *
                         std::max(static_cast<double>(widest) / plan.tp, hidden);
  if (plan.sp) rank.layer_workspace += storage * tokens * hidden;  // the gathered sequence
  if (work.attention == engine::AttentionKind::unfused)
    rank.layer_workspace +=
        2 * storage * tokens * static_cast<double>(model.heads * work.seq) / plan.tp;
  rank.head_workspace = logits * stack.logit_workspace_bytes;
  return rank;
}

StageMemory MemoryModel::stage_memory(const RankMemory& rank, const ParallelPlan& plan,
                                      const StageLoad& load) const {
  const Stack& stack = scenario_->stack;
  const engine::Precision precision = scenario_->workload.precision;
  const StateBytes& state = stack.state(precision);
  const double shards = static_cast<double>(plan.dp) * plan.cp;
  const engine::RankParameters& p = rank.parameters;

  double parameters = static_cast<double>(p.layer) * load.layers;
  if (load.embedding) parameters += static_cast<double>(p.embedding + p.positions);
  if (load.head) {
    parameters += static_cast<double>(p.final_norm);
    // A tied head is the embedding's own matrix on a single stage, a copy on the last of several.
    if (!scenario_->model.tied_embeddings || !load.embedding)
      parameters += static_cast<double>(p.head);
  }

  StageMemory memory;
  memory.stage = load.stage;
  double weight_bytes = state.parameter;
  if (precision >= engine::Precision::fp8) weight_bytes += stack.fp8_weight_bytes;
  memory[MemoryUse::parameter] = parameters * weight_bytes / (plan.zero >= 3 ? shards : 1);
  memory[MemoryUse::gradient] = parameters * state.gradient / (plan.zero >= 2 ? shards : 1);
  memory[MemoryUse::optimizer] = parameters * state.optimizer / (plan.zero >= 1 ? shards : 1);

  double activation = load.activation;
  if (activation < 0) {
    // layers_a_chunk is whole but for the bound of an unequal interleaved stage.
    activation = static_cast<double>(load.chunks_in_flight) *
                 saved_chunk_bytes(rank, plan.recompute, static_cast<int>(load.layers_a_chunk));
  }
  if (load.embedding)
    activation += static_cast<double>(first_chunk_in_flight(shape_of(plan))) * rank.embedding_saved;
  if (load.head)
    activation += rank.head_saved;
  else
    activation += static_cast<double>(load.chunks_in_flight) * rank.output_saved;
  memory[MemoryUse::activation] = activation;

  if (plan.recompute.mode == Recompute::Mode::full && load.layers > 0)
    memory[MemoryUse::recompute] = rank.saved_none - rank.saved_full;
  else if (plan.recompute.mode == Recompute::Mode::selective && load.layers > 0)
    memory[MemoryUse::recompute] = rank.saved_none - rank.saved_selective;

  memory[MemoryUse::workspace] =
      std::max(load.layers > 0 ? rank.layer_workspace : 0, load.head ? rank.head_workspace : 0);
  if (plan.dp * plan.cp > 1)
    memory[MemoryUse::communication] += std::min(
        stack.bucket_bytes,
        parameters * (stack.gradient_message(precision) + engine::storage_bytes(precision)));
  if (plan.zero >= 3)
    memory[MemoryUse::communication] +=
        stack.gathered_layers * static_cast<double>(p.layer) * engine::storage_bytes(precision);

  memory[MemoryUse::runtime] =
      scenario_->runtime_bytes() +
      stack.fragmentation * (memory[MemoryUse::activation] + memory[MemoryUse::recompute] +
                             memory[MemoryUse::workspace]);
  return memory;
}

MemoryModel::StageLoad MemoryModel::even_load(const ParallelPlan& plan, int stage,
                                              int layers) const {
  StageLoad load;
  load.stage = stage;
  load.layers = layers;
  load.embedding = stage == 0;
  load.head = stage == plan.pp - 1;
  load.chunks_in_flight = engine::most_in_flight(shape_of(plan), stage);
  load.layers_a_chunk = (layers + plan.vpp - 1) / plan.vpp;
  return load;
}

double MemoryModel::exact_activation(const RankMemory& rank, const ParallelPlan& plan,
                                     int stage) const {
  const engine::Partition partition(plan, scenario_->model.layers);
  double held = 0, most = 0;
  const PipelineShape shape = engine::shortened(shape_of(plan), 3);
  for (const engine::PipelineStep& step : engine::make_schedule(shape, stage)) {
    const double bytes =
        saved_chunk_bytes(rank, plan.recompute, partition.chunk(stage, step.chunk).count);
    held += step.kind == engine::PipelineStep::Kind::forward ? bytes : -bytes;
    most = std::max(most, held);
  }
  return most;
}

engine::MemoryOutcome MemoryModel::evaluate(const ParallelPlan& plan) const {
  return evaluate(rank_memory(plan), plan);
}

engine::MemoryOutcome MemoryModel::evaluate(const RankMemory& rank,
                                            const ParallelPlan& plan) const {
  engine::MemoryOutcome outcome;
  outcome.capacity_bytes = scenario_->cluster.device.memory_bytes;
  const std::vector<int> layers = engine::layers_per_stage(plan, scenario_->model.layers);
  for (int stage = 0; stage < plan.pp; ++stage) {
    StageLoad load = even_load(plan, stage, layers[static_cast<size_t>(stage)]);
    if (load.layers % plan.vpp != 0) load.activation = exact_activation(rank, plan, stage);
    outcome.stages.push_back(stage_memory(rank, plan, load));
    outcome.peak_bytes = std::max(outcome.peak_bytes, outcome.stages.back().total());
  }
  return outcome;
}

double MemoryModel::peak_bytes(const RankMemory& rank, const ParallelPlan& plan) const {
  auto total = [&](int stage, int layers) {
    return stage_memory(rank, plan, even_load(plan, stage, layers)).total();
  };
  if (plan.layers_per_stage.empty()) {
    // Later stages hold fewer micro-batches, so only the ends can be the fullest.
    const int layers = static_cast<int>(scenario_->model.layers / plan.pp);
    const double first = total(0, layers);
    return plan.pp == 1 ? first : std::max(first, total(plan.pp - 1, layers));
  }
  double peak = 0;
  for (int stage = 0; stage < plan.pp; ++stage)
    peak = std::max(peak, total(stage, plan.layers_per_stage[static_cast<size_t>(stage)]));
  return peak;
}

double MemoryModel::margin_bytes(double peak_bytes) const {
  return peak_bytes * scenario_->stack.memory_error;
}

bool MemoryModel::fits(double peak_bytes) const {
  return peak_bytes + margin_bytes(peak_bytes) <= scenario_->cluster.device.memory_bytes;
}

}  // namespace tuner
