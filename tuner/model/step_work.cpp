// Matrix products and messages of one training step.
#include "tuner/model/step_work.h"

#include <algorithm>

#include "engine/plan/partition.h"

namespace tuner {
namespace {

using engine::ModelSpec;
using engine::ParallelPlan;
using engine::Recompute;

constexpr int64_t kSumBytes = 4;   // of gradients and statistics
constexpr int64_t kNormBytes = 8;  // of a partial sum of the gradient norm
// Partial sums a layer and outside the layers, the loss among them.
constexpr int64_t kNormSumsPerLayer = 18;
constexpr int64_t kNormSumsBeside = 6;

// What the formulas have in common, of one rank.
struct Counter {
  const ModelSpec& model;
  const ParallelPlan& plan;
  const engine::Workload& workload;
  int64_t vocab;  // padded
  bool sp, unfused;
  int64_t tokens, storage, micro_batches;
  engine::RankParameters parameters;
  TrafficCounts counts;

  int64_t hidden_bytes() const { return tokens * model.hidden * storage; }
  int replicas() const { return plan.dp * plan.cp; }
};

int full_layers(const Recompute& recompute, int layers) {
  if (recompute.mode != Recompute::Mode::full) return 0;
  return recompute.layers == 0 ? layers : std::min(layers, recompute.layers);
}

double product_flops(const Counter& c, int stage, const engine::Partition& partition) {
  const ModelSpec& model = c.model;
  const double tokens = static_cast<double>(c.tokens);
  const int64_t query = model.q_width() / c.plan.tp;
  const double linear =
      2 * tokens * static_cast<double>(model.hidden * product_columns(model, c.plan.tp));
  // Scores; the weighted sum of the values costs the same.
  const double scores = c.unfused ? 2 * tokens * static_cast<double>(c.workload.seq * query) : 0;
  const double forward = linear + 2 * scores;
  double flops = 0;
  for (int chunk = 0; chunk < partition.chunks(); ++chunk) {
    const int layers = partition.chunk(stage, chunk).count;
    flops += 3 * layers * forward + full_layers(c.plan.recompute, layers) * forward;
    if (c.plan.recompute.mode == Recompute::Mode::selective) flops += layers * scores;
    if (partition.has_head(stage, chunk))
      flops += 6 * tokens * static_cast<double>(model.hidden * (c.vocab / c.plan.tp));
  }
  return flops * static_cast<double>(c.micro_batches);
}

// A pass through the two tensor regions of `layers` layers, forward or backward.
void add_region(Counter& c, int64_t layers, bool backward) {
  const int64_t passes = c.micro_batches * layers * 2;
  if (!c.sp) return c.counts.add("tp", "all_reduce", passes, c.hidden_bytes());
  // Backward gathers the gradient and, for the weights' gradients, the region's input again.
  c.counts.add("tp", "all_gather", passes * (backward ? 2 : 1), c.hidden_bytes());
  c.counts.add("tp", "reduce_scatter", passes, c.hidden_bytes());
}

void add_tensor_ends(Counter& c, bool embedding, bool head) {
  const int64_t m = c.micro_batches;
  if (embedding) {
    c.counts.add("tp", c.sp ? "reduce_scatter" : "all_reduce", m, c.hidden_bytes());
    if (c.sp) c.counts.add("tp", "all_gather", m, c.hidden_bytes());
  }
  if (head) {
    c.counts.add("tp", "all_reduce", 3 * m, c.tokens * kSumBytes);  // maxima, sums, targets' logits
    c.counts.add("tp", c.sp ? "reduce_scatter" : "all_reduce", m, c.hidden_bytes());
    if (c.sp) c.counts.add("tp", "all_gather", 2 * m, c.hidden_bytes());
  }
}

// How often a unit's gradients are reduced: with ZeRO 2 and 3 in every micro-batch.
int64_t reductions(const Counter& c) { return c.plan.zero >= 2 ? c.micro_batches : 1; }

// Gradients that are partial sums on the tensor axis.
void add_partial_gradients(Counter& c, int64_t layers, bool embedding, bool head, bool twice) {
  const ModelSpec& model = c.model;
  const int64_t often = reductions(c);
  if (c.plan.tp > model.kv_heads) {
    c.counts.add("tp", "all_reduce", often * layers, 2 * model.head_dim * model.hidden * kSumBytes);
    if (model.qkv_bias)
      c.counts.add("tp", "all_reduce", often * layers, 2 * model.head_dim * kSumBytes);
  }
  if (!c.sp) return;
  c.counts.add("tp", "all_reduce", often * layers, c.parameters.layer_replicated * kSumBytes);
  if (embedding)
    c.counts.add("tp", "all_reduce", often * (twice ? 2 : 1), c.parameters.positions * kSumBytes);
  if (head) c.counts.add("tp", "all_reduce", often, c.parameters.final_norm * kSumBytes);
}

// `times`: how often a pass uses the unit.
void add_replicas(Counter& c, int64_t units, int64_t elements, int64_t times) {
  if (c.replicas() == 1 || units == 0) return;
  const int64_t padded = (elements + c.replicas() - 1) / c.replicas() * c.replicas();
  if (c.plan.zero == 0) return c.counts.add("dp", "all_reduce", units, elements * kSumBytes);
  c.counts.add("dp", "reduce_scatter", units * (c.plan.zero == 1 ? 1 : reductions(c) * times),
               padded * kSumBytes);
  c.counts.add("dp", "all_gather", units * (c.plan.zero < 3 ? 1 : 2 * c.micro_batches * times),
               padded * c.storage);
}

}  // namespace

void TrafficCounts::add(const char* axis, const char* verb, int64_t messages,
                        int64_t payload_bytes) {
  if (messages == 0 || payload_bytes == 0) return;
  engine::Traffic& traffic = counts_[{axis, verb}];
  traffic.axis = axis;
  traffic.verb = verb;
  traffic.messages += messages;
  traffic.payload_bytes += messages * payload_bytes;
}

std::vector<engine::Traffic> TrafficCounts::list() const {
  std::vector<engine::Traffic> sorted;
  for (const auto& [key, traffic] : counts_) sorted.push_back(traffic);
  return sorted;
}

int64_t product_columns(const ModelSpec& model, int tp) {
  const int64_t kv_heads = std::max<int64_t>(1, model.kv_heads / tp);
  return 2 * model.q_width() / tp + 2 * kv_heads * model.head_dim +
         (model.gated_mlp ? 3 : 2) * model.ffn_hidden / tp;
}

StepWork step_work(const Scenario& scenario, const ParallelPlan& plan, int stage) {
  const ModelSpec& model = scenario.model;
  const engine::Workload& workload = scenario.workload;
  const engine::Partition partition(plan, model.layers);
  const int64_t vocab = scenario.vocab(plan.tp);
  Counter c{model,
            plan,
            workload,
            vocab,
            plan.sp && plan.tp > 1,
            workload.attention == engine::AttentionKind::unfused,
            plan.mbs * workload.seq,
            engine::storage_bytes(workload.precision),
            plan.micro_batches(),
            engine::rank_parameters(model, plan.tp, vocab),
            {}};
  const bool embedding = stage == 0, head = stage == plan.pp - 1;
  const bool shared = model.tied_embeddings && embedding && head;  // one table for both ends
  const int layers = partition.layers_on(stage);
  int recomputed = 0;
  for (int chunk = 0; chunk < plan.vpp; ++chunk)
    recomputed += full_layers(plan.recompute, partition.chunk(stage, chunk).count);
  if (plan.tp > 1) {
    add_region(c, layers + recomputed, false);
    add_region(c, layers, true);
    add_tensor_ends(c, embedding, head);
    add_partial_gradients(c, layers, embedding, head, shared && plan.zero >= 2);
  }
  const engine::RankParameters& p = c.parameters;
  add_replicas(c, layers, p.layer, 1);
  if (embedding) add_replicas(c, 1, p.embedding + p.positions, shared ? 2 : 1);
  if (head) add_replicas(c, 1, p.final_norm + (shared ? 0 : p.head), 1);
  if (plan.pp > 1) {
    const int64_t bytes = c.hidden_bytes() / (c.sp ? plan.tp : 1);
    c.counts.add("pp", "send",
                 (2 * plan.vpp - (embedding ? 1 : 0) - (head ? 1 : 0)) * c.micro_batches, bytes);
    if (model.tied_embeddings && (embedding || head))
      c.counts.add("embedding", "all_reduce", 1, p.head * kSumBytes);
  }
  if (plan.world() > 1)
    c.counts.add("world", "all_reduce", 1,
                 (model.layers * kNormSumsPerLayer + kNormSumsBeside) * kNormBytes);
  StepWork work;
  work.matmul_flops = product_flops(c, stage, partition);
  work.traffic = c.counts.list();
  return work;
}

}  // namespace tuner
