// Time of a training step by operator.
#include "tuner/model/cost_model.h"

#include <algorithm>
#include <cmath>

#include "engine/plan/partition.h"
#include "engine/plan/schedule.h"
#include "tuner/model/pipeline_simulation.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;

namespace {

double tokens_of(const Scenario& scenario, const ParallelPlan& plan) {
  return static_cast<double>(plan.mbs * scenario.workload.seq) / plan.cp;
}

// Layers of a chunk that are recomputed in full.
int fully_recomputed(const Recompute& recompute, int layers) {
  if (recompute.mode != Recompute::Mode::full) return 0;
  return recompute.layers == 0 ? layers : std::min(layers, recompute.layers);
}

// Time that recomputation adds to the backward pass of a chunk.
double recompute_of_chunk(const LayerCost& layer, const Recompute& recompute, int layers) {
  if (recompute.mode == Recompute::Mode::selective) return layers * layer.recompute_selective;
  return fully_recomputed(recompute, layers) * layer.recompute_full;
}

}  // namespace

CostModel::CostModel(const Scenario& scenario) : scenario_(&scenario), operators_(scenario) {}

// Exposed communication of the tensor axis in one pass through a layer: two all-reduces, or two
// pairs of gather and scatter with sequence parallelism. In the backward pass Megatron since 2022
// hides the reduction of the input gradient behind the weight gradient.
double CostModel::tensor_pass(const ParallelPlan& plan, double bytes, bool backward) const {
  if (plan.tp == 1) return 0;
  const Stack& stack = scenario_->stack;
  const Rates& rates = scenario_->rates;
  const double hidden =
      backward && stack.overlaps_tensor_backward ? rates.tensor_backward_hidden : 0;
  if (!plan.sp) return 2 * operators_.tensor_all_reduce(plan.tp, bytes) * (1 - hidden);
  const double exposed = stack.overlaps_tensor_sharded ? 1 - rates.tensor_sharded_hidden : 1;
  return 2 * operators_.tensor_shard(plan.tp, bytes) * (2 - hidden) * exposed;
}

LayerCost CostModel::layer_cost(const ParallelPlan& plan) const {
  const engine::ModelSpec& model = scenario_->model;
  const Rates& rates = scenario_->rates;
  const double t = plan.tp;
  const double tokens = tokens_of(*scenario_, plan);
  const double h = static_cast<double>(model.hidden);
  const double q = static_cast<double>(model.q_width()) / t;
  const double kv =
      static_cast<double>(std::max<int64_t>(model.kv_heads / plan.tp, 1) * model.head_dim);
  const double f = static_cast<double>(model.ffn_hidden);
  const double gated = model.gated_mlp ? 1 : 0;
  const double storage = engine::storage_bytes(scenario_->workload.precision);
  const double sequence_share = plan.sp ? t : 1;

  struct Product {
    double n, k;
  };
  const Product products[] = {{q + 2 * kv, h}, {h, q}, {f * (1 + gated) / t, h}, {h, f / t}};
  double gemm_forward = 0, gemm_backward = 0;
  for (const auto& [n, k] : products) {
    gemm_forward += operators_.gemm(tokens, n, k);
    gemm_backward += operators_.gemm(tokens, k, n) + operators_.gemm(n, k, tokens);
  }
  if (rates.quantize_passes > 0) {
    const double quantize = operators_.memory(rates.quantize_passes * tokens *
                                              (2 * h / sequence_share + (h + f * (1 + gated)) / t));
    gemm_forward += quantize;
    gemm_backward += 2 * quantize;
  }

  const double queries = static_cast<double>(scenario_->workload.seq) / plan.cp;
  const double attention_forward =
      operators_.attention_forward(static_cast<double>(plan.mbs), queries, q);
  const double attention_backward = attention_forward * operators_.attention_backward_factor();

  const double elementwise_forward = operators_.memory(
      storage / 2 *
      (rates.elementwise_sequence_factor * 22 * tokens * h / sequence_share +
       rates.elementwise_tensor_factor * (6 * h + (4 + 2 * gated) * f) * tokens / t));
  const double elementwise_backward = elementwise_forward * rates.elementwise_backward_factor;

  const double message = storage * tokens * h;
  const double tensor_forward = tensor_pass(plan, message, false);
  const double tensor_backward = tensor_pass(plan, message, true);

  // Keys and values travel around the ring of context ranks while attention runs.
  double context = 0;
  if (plan.cp > 1) {
    const double bytes = (plan.cp - 1.0) * 2 * storage * tokens * kv;
    const double exchange = operators_.pipeline_message(bytes, plan.tp * plan.cp);
    const double attention = attention_forward + attention_backward;
    context = std::max(3 * exchange * (1 - rates.context_hidden), 3 * exchange - attention);
  }

  const double work_forward =
      gemm_forward + attention_forward + elementwise_forward + tensor_forward + context / 3;
  const double work_backward =
      gemm_backward + attention_backward + elementwise_backward + tensor_backward + context * 2 / 3;
  const double growth = (t - 1) / 7;
  const double host_forward =
      rates.launch_seconds * (1 + rates.launch_tensor_growth * growth * growth);
  const double host_backward = host_forward * rates.launch_backward_factor;

  // A GPU works while its host prepares what comes next; a processor does both itself.
  const bool is_cpu = scenario_->cluster.device.is_cpu();
  const auto with_host = [&](double work, double host) {
    return is_cpu ? work + host : smooth_max(work, host);
  };

  LayerCost layer;
  layer.gemm = gemm_forward + gemm_backward;
  layer.attention = attention_forward + attention_backward;
  layer.elementwise = elementwise_forward + elementwise_backward;
  layer.tensor = tensor_forward + tensor_backward;
  layer.context = context;
  layer.forward = with_host(work_forward, host_forward);
  layer.backward = with_host(work_backward, host_backward);
  layer.launch = layer.forward - work_forward + layer.backward - work_backward;
  layer.recompute_full =
      with_host(work_backward + work_forward, host_backward + host_forward) - layer.backward;
  layer.recompute_selective =
      with_host(work_backward + attention_forward, host_backward) - layer.backward;
  return layer;
}

MicroBatchCost CostModel::micro_batch_cost(const ParallelPlan& plan) const {
  const engine::ModelSpec& model = scenario_->model;
  const Rates& rates = scenario_->rates;
  const double tokens = tokens_of(*scenario_, plan);
  const double h = static_cast<double>(model.hidden);
  const double storage = engine::storage_bytes(scenario_->workload.precision);
  const int64_t vocab = scenario_->vocab(plan.tp);
  const double shard = static_cast<double>(vocab) / plan.tp;
  const double message = storage * tokens * h;
  const double collective = plan.sp ? operators_.tensor_shard(plan.tp, message)
                                    : operators_.tensor_all_reduce(plan.tp, message);

  MicroBatchCost cost;
  cost.layer = layer_cost(plan);
  cost.parameters = engine::rank_parameters(model, plan.tp, vocab);
  const double embedding = operators_.memory(rates.embedding_bytes * storage / 2 * tokens * h);
  cost.embedding_forward = 0.5 * embedding + collective;
  cost.embedding_backward = 0.5 * embedding + (plan.sp ? collective : 0);
  const double unpadded = vocab % 8 != 0 && plan.tp == 1 ? rates.unpadded_vocab_factor : 1;
  const double loss = operators_.memory(rates.loss_passes * 4 * tokens * shard);
  cost.head_forward =
      unpadded * operators_.gemm(tokens, shard, h, false) + 0.5 * loss + (plan.sp ? collective : 0);
  cost.head_backward = unpadded * (operators_.gemm(tokens, h, shard, false) +
                                   operators_.gemm(shard, h, tokens, false)) +
                       0.5 * loss + collective;
  cost.boundary_bytes =
      message / (plan.sp || scenario_->stack.scatters_pipeline_messages ? plan.tp : 1);
  return cost;
}

// What the stages hold, reduced to what the closed form needs.
struct CostModel::Stages {
  double sum = 0;      // Σ over stages of the time of one micro-batch, without the fixed part
  double slowest = 0;  // of one stage
  double recompute = 0, ends = 0;  // of the slowest stage
  double layers = 0;               // on the slowest stage
  double most_parameters = 0;      // of one rank, over stages
  double most_layers = 0;
};

CostModel::Stages CostModel::stages(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  const double pass = cost.layer.forward + cost.layer.backward;
  const double embedding = cost.embedding_forward + cost.embedding_backward;
  const double head = cost.head_forward + cost.head_backward;
  const engine::RankParameters& p = cost.parameters;
  Stages result;
  auto add = [&](int layers, bool first, bool last, double times) {
    // One chunk of a stage may be lighter than the others (see engine::Partition).
    const int longest = (layers + plan.vpp - 1) / plan.vpp;
    const double recompute =
        (plan.vpp - 1) * recompute_of_chunk(cost.layer, plan.recompute, longest) +
        recompute_of_chunk(cost.layer, plan.recompute, layers - (plan.vpp - 1) * longest);
    const double ends = (first ? embedding : 0) + (last ? head : 0);
    const double time = layers * pass + recompute + ends;
    result.sum += time * times;
    if (time > result.slowest) {
      result.slowest = time;
      result.recompute = recompute;
      result.ends = ends;
      result.layers = layers;
    }
    double parameters = static_cast<double>(p.layer) * layers;
    if (first) parameters += static_cast<double>(p.embedding + p.positions);
    if (last) parameters += static_cast<double>(p.final_norm);
    if (last && !(first && scenario_->model.tied_embeddings))
      parameters += static_cast<double>(p.head);
    result.most_parameters = std::max(result.most_parameters, parameters);
    result.most_layers = std::max(result.most_layers, static_cast<double>(layers));
  };
  if (plan.layers_per_stage.empty()) {
    const int layers = static_cast<int>(scenario_->model.layers / plan.pp);
    if (plan.pp == 1) {
      add(layers, true, true, 1);
    } else {
      add(layers, true, false, 1);
      if (plan.pp > 2) add(layers, false, false, plan.pp - 2);
      add(layers, false, true, 1);
    }
  } else {
    for (int stage = 0; stage < plan.pp; ++stage)
      add(plan.layers_per_stage[static_cast<size_t>(stage)], stage == 0, stage == plan.pp - 1, 1);
  }
  return result;
}

// Messages between stages that one micro-batch waits for on one rank: one each way for every chunk.
double CostModel::pipeline_cost(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  if (plan.pp == 1) return 0;
  const int span = plan.tp * plan.cp * plan.dp * plan.pp;
  const double message = operators_.pipeline_message(cost.boundary_bytes, span);
  const bool hidden = scenario_->stack.overlaps_pipeline && plan.vpp > 1;
  return 2.0 * plan.vpp * (hidden ? scenario_->rates.pipeline_message_seconds : message);
}

// What every pass through all chunks of a stage takes beside its layers.
double CostModel::pass_overhead(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  return (pipeline_cost(cost, plan) + scenario_->rates.micro_batch_seconds) / 2;
}

// Time that gathering the parameters of a layer (ZeRO 3) and scattering its gradients in every
// micro-batch (ZeRO 2 and 3) add to it.
double CostModel::sharded_layer_extra(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  const Rates& rates = scenario_->rates;
  const int members = plan.dp * plan.cp;
  const double parameters = static_cast<double>(cost.parameters.layer);
  const engine::Precision precision = scenario_->workload.precision;
  // Threads of one host meet at once, others in rounds.
  const double rounds = scenario_->cluster.device.is_cpu() ? 1 : std::log2(members);
  const double start = rates.shard_start_seconds * rounds;
  auto transfer = [&](double bytes) {
    return operators_.data_pass(members, plan.tp, bytes * parameters) + start;
  };
  const double gather = plan.zero >= 3 ? transfer(engine::storage_bytes(precision)) : 0;
  const double scatter = transfer(scenario_->stack.gradient_message(precision));
  auto added = [&](double compute, double communication) {
    return std::max(compute, communication) +
           (1 - rates.shard_hidden) * std::min(compute, communication) - compute;
  };
  return added(cost.layer.forward, gather) + added(cost.layer.backward, gather + scatter);
}

double CostModel::data_cost(const MicroBatchCost& cost, const ParallelPlan& plan,
                            const Stages& stages) const {
  const int members = plan.dp * plan.cp;
  if (members == 1) return 0;
  const Stack& stack = scenario_->stack;
  const engine::Precision precision = scenario_->workload.precision;
  const double gradient = stack.gradient_message(precision);
  const double weight = engine::storage_bytes(precision);
  auto pass = [&](double bytes) {
    return operators_.data_pass(members, plan.tp, bytes * stages.most_parameters);
  };
  const bool every_micro_batch =
      plan.zero >= 3 || (plan.zero == 2 && plan.pp == 1 && stack.reduces_every_micro_batch);
  if (every_micro_batch) {
    const double layers = static_cast<double>(plan.micro_batches()) * stages.most_layers *
                          sharded_layer_extra(cost, plan);
    return layers + (plan.zero == 2 ? pass(weight) : 0);
  }
  // A gradient can travel once its last micro-batch is through, a parameter until its first one
  // comes: while the rank computes a pass, or the chunks of the micro-batches in flight.
  const double passes = plan.vpp > 1 ? plan.pp * (plan.vpp - 1.0) / plan.vpp : 1;
  auto exposed = [&](double transfer, bool overlaps, double pass_seconds) {
    const double window = passes * pass_seconds;
    return transfer -
           (overlaps ? scenario_->rates.gradient_hidden * std::min(transfer, window) : 0);
  };
  const double backward = stages.layers * cost.layer.backward + stages.recompute;
  const double forward = stages.layers * cost.layer.forward;
  return exposed(pass(plan.zero == 0 ? 2 * gradient : gradient), stack.overlaps_gradient_reduction,
                 backward) +
         (plan.zero == 0 ? 0 : exposed(pass(weight), stack.overlaps_parameter_gather, forward));
}

// What ranks compute takes turns; that they wake each other up does not, since a core that waits
// for one rank runs another.
void CostModel::share_cores(const ParallelPlan& plan, const Stages& stages,
                            StepParts& parts) const {
  const ClusterSpec& cluster = scenario_->cluster;
  if (!cluster.device.is_cpu()) return;
  const int ranks_here = std::min(plan.world(), cluster.gpus_per_node());
  const double turns = static_cast<double>(ranks_here) / cluster.device.multiprocessors;
  if (turns <= 1) return;
  Scenario awake = *scenario_;
  awake.rates.tensor_start_seconds = awake.rates.shard_start_seconds =
      awake.rates.pipeline_message_seconds = 0;
  const CostModel model(awake);
  const MicroBatchCost cost = model.micro_batch_cost(plan);
  StepParts work = model.own_step(cost, plan, model.stages(cost, plan));
  work[StepPart::bubble] = 0;
  const double balance = stages.slowest > 0 ? stages.sum / (plan.pp * stages.slowest) : 1;
  StepParts shared = parts;
  shared[StepPart::bubble] = 0;
  for (size_t i = 0; i < shared.seconds.size(); ++i)
    shared.seconds[i] =
        turns * balance * work.seconds[i] + (shared.seconds[i] - work.seconds[i]) / turns;
  if (shared.total() > parts.total()) parts = shared;
}

StepParts CostModel::step(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  const Stages stages = this->stages(cost, plan);
  StepParts parts = own_step(cost, plan, stages);
  share_cores(plan, stages, parts);
  return parts;
}

// Of ranks that have a core of their own.
StepParts CostModel::own_step(const MicroBatchCost& cost, const ParallelPlan& plan,
                              const Stages& stages) const {
  const Rates& rates = scenario_->rates;
  const double m = static_cast<double>(plan.micro_batches());
  const double per_layer = m * stages.layers;
  const double messages = pipeline_cost(cost, plan);
  const double fixed = messages + rates.micro_batch_seconds;

  StepParts parts;
  parts[StepPart::gemm] = per_layer * cost.layer.gemm;
  parts[StepPart::attention] = per_layer * cost.layer.attention;
  parts[StepPart::elementwise] = per_layer * cost.layer.elementwise;
  parts[StepPart::launch] = per_layer * cost.layer.launch;
  parts[StepPart::tensor_communication] = per_layer * cost.layer.tensor;
  parts[StepPart::context_communication] = per_layer * cost.layer.context;
  parts[StepPart::recompute] = m * stages.recompute;
  parts[StepPart::embedding_and_head] = m * stages.ends;
  parts[StepPart::pipeline_communication] = m * messages;
  parts[StepPart::micro_batch_overhead] = m * rates.micro_batch_seconds;
  parts[StepPart::bubble] = (stages.sum - stages.slowest + (plan.pp - 1) * fixed) / plan.vpp;
  parts[StepPart::data_communication] = data_cost(cost, plan, stages);
  const double shards = plan.zero >= 1 ? static_cast<double>(plan.dp) * plan.cp : 1;
  parts[StepPart::optimizer] = operators_.memory(
      stages.most_parameters * (rates.optimizer_bytes / shards + rates.optimizer_replicated_bytes));
  parts[StepPart::step_overhead] = rates.step_seconds;
  const double nodes =
      std::max(1.0, static_cast<double>(plan.world()) / scenario_->cluster.gpus_per_node());
  parts[StepPart::stragglers] = parts.total() * rates.straggler_growth * std::log2(nodes);
  return parts;
}

PipelineTimes CostModel::pipeline_times(const MicroBatchCost& cost,
                                        const ParallelPlan& plan) const {
  const double fixed = pass_overhead(cost, plan);
  const engine::Partition partition(plan, scenario_->model.layers);
  PipelineTimes times(plan.pp, plan.vpp);
  for (int stage = 0; stage < plan.pp; ++stage)
    for (int chunk = 0; chunk < plan.vpp; ++chunk) {
      const int layers = partition.chunk(stage, chunk).count;
      double forward = layers * cost.layer.forward + fixed / plan.vpp;
      double backward = layers * cost.layer.backward + fixed / plan.vpp +
                        recompute_of_chunk(cost.layer, plan.recompute, layers);
      if (engine::Partition::has_embedding(stage, chunk)) {
        forward += cost.embedding_forward;
        backward += cost.embedding_backward;
      }
      if (partition.has_head(stage, chunk)) {
        forward += cost.head_forward;
        backward += cost.head_backward;
      }
      times.set(stage, chunk, forward, backward);
    }
  return times;
}

StepParts CostModel::simulated_step(const MicroBatchCost& cost, const ParallelPlan& plan) const {
  if (plan.pp == 1) return step(cost, plan);
  const Stages stages = this->stages(cost, plan);
  StepParts parts = own_step(cost, plan, stages);
  const double length = simulate_pipeline(pipeline_times(cost, plan), plan.micro_batches());
  const double busy =
      static_cast<double>(plan.micro_batches()) * (stages.slowest + 2 * pass_overhead(cost, plan));
  parts[StepPart::stragglers] = 0;
  parts[StepPart::bubble] = std::max(0.0, length - busy);
  const double nodes =
      std::max(1.0, static_cast<double>(plan.world()) / scenario_->cluster.gpus_per_node());
  parts[StepPart::stragglers] =
      parts.total() * scenario_->rates.straggler_growth * std::log2(nodes);
  share_cores(plan, stages, parts);
  return parts;
}

}  // namespace tuner
