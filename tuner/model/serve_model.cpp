// Time and memory of serving iterations.
#include "tuner/model/serve_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tuner {

using engine::Precision;

namespace {

constexpr double kHopSeconds = 10e-6;  // of a message between stages

// Near the larger of the two, and smooth where they meet.
double cubic_max(double a, double b) { return std::cbrt(a * a * a + b * b * b); }

}  // namespace

double ServeParts::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

ServePart ServeParts::largest() const {
  return static_cast<ServePart>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

ServeParts& ServeParts::add(const ServeParts& other, double times) {
  for (size_t i = 0; i < seconds.size(); ++i) seconds[i] += times * other.seconds[i];
  return *this;
}

ServeModel::ServeModel(const ServeScenario& scenario, const ServePlan& plan)
    : scenario_(&scenario),
      plan_(plan),
      element_(plan.weights == ServeFormat::f32 ? 4 : 2),
      rates_(&scenario.rates_of(plan.weights)) {
  const DeviceSpec& device = scenario.cluster.device;
  if (plan.tp > 1) curve_ = scenario.curves.curve(scenario.cluster.interconnect, device, plan.tp);
  double cores = 1;
  if (device.is_cpu()) {
    cores = std::max(1, device.multiprocessors / plan.gpus());
    turns_ = std::max(1.0, static_cast<double>(plan.tp * plan.replicas) / device.multiprocessors);
  }
  memory_rate_ = device.memory_bytes_per_second * cores;
  const auto peak = [&](ServeFormat weights) {
    return device.peak(product_precision(weights, device)) * cores;
  };
  storage_peak_ = peak(ServeFormat::bf16);
  const auto products = [&](ServeFormat weights) {
    const ServeRates& rates = scenario.rates_of(weights);
    return Products{peak(weights) * rates.gemm_efficiency,
                    memory_rate_ * rates.gemm_bandwidth_share};
  };
  expert_products_ = products(plan.weights);
  split_products_ = products(split_format(plan.weights, !scenario.model.is_dense()));
  size_layers();
  size_cache();
}

void ServeModel::size_layers() {
  const engine::ModelSpec& model = scenario_->model;
  const int64_t vocab =
      engine::padded_vocab(model.vocab, scenario_->stack.vocab_multiple, plan_.tp);
  const engine::RankParameters rank = engine::rank_parameters(model, plan_.tp, vocab);
  const double split = bytes_of(split_format(plan_.weights, !model.is_dense()));
  const auto sized = [&](int64_t count, int64_t parameters) {
    const auto each = static_cast<double>(parameters);
    return Layers{static_cast<double>(count), each, each * split};
  };
  dense_ = sized(model.is_dense() ? model.layers : model.moe.dense_layers, rank.layer);
  mixture_ = sized(model.layers - static_cast<int64_t>(dense_.count), rank.mixture_layer);
  expert_parameters_ = static_cast<double>(rank.expert);
  expert_bytes_ = expert_parameters_ * bytes_of(plan_.weights);
  head_weights_ = static_cast<double>(rank.head);
  // A tied matrix is held once where both ends are on one GPU.
  const int64_t head = model.tied_embeddings && plan_.pp == 1 ? 0 : rank.head;
  first_bytes_ = static_cast<double>(rank.embedding + rank.positions) * element_;
  last_bytes_ = static_cast<double>(head + rank.final_norm) * element_;
  stage_layers_ = stage_layers(model.layers, plan_.pp);
}

// Latent attention keeps one compressed vector and the rotary part of a key for all heads, on every
// rank, and decodes on it without unfolding it (DeepSeek-AI 2024, section 2.1).
void ServeModel::size_cache() {
  const engine::ModelSpec& model = scenario_->model;
  const engine::LatentAttentionSpec& mla = model.mla;
  const double tp = plan_.tp;
  const auto heads = static_cast<double>(model.heads) / tp;
  if (model.has_latent_attention()) {
    kv_layer_bytes_ = static_cast<double>(mla.kv_rank + mla.rope_dim) * bytes_of(plan_.kv);
    score_width_ = heads * static_cast<double>(2 * mla.kv_rank + mla.rope_dim);
    prompt_width_ = heads * static_cast<double>(mla.nope_dim + mla.rope_dim + mla.value_dim);
  } else {
    const double kv_heads =
        std::max(1.0, static_cast<double>(model.kv_heads) / tp);  // replicated beyond one a rank
    kv_layer_bytes_ = 2 * kv_heads * static_cast<double>(model.head_dim) * bytes_of(plan_.kv);
    prompt_width_ = score_width_ = 2 * heads * static_cast<double>(model.head_dim);
  }
  kv_token_bytes_ = kv_layer_bytes_ * std::ceil(layers() / plan_.pp);

  const int64_t group = model.heads / model.kv_heads;
  if (!scenario_->stack.current().reads_kv_once(group)) {
    const double again = rates_->cache_reread_factor * static_cast<double>(group) * memory_rate_ *
                         rates_->kv_bandwidth_share / rates_->cache_bytes_per_second;
    reread_ = std::pow(1 + std::pow(again, 6), 1.0 / 6);
  }
}

// The excess over the smaller of arithmetic and reading belongs to the larger.
void ServeModel::add_product(double times, double flops, double bytes, const Products& rates,
                             ServeParts& parts) {
  const double arithmetic = flops / rates.flops_per_second;
  const double reading = bytes / rates.bytes_per_second;
  parts[arithmetic > reading ? ServePart::compute : ServePart::weights] +=
      times * cubic_max(arithmetic, reading);
}

// Products of all tokens with the weights that all of them pass.
void ServeModel::add_products(double tokens, ServeParts& parts) const {
  for (const Layers& kind : {dense_, mixture_})
    add_product(kind.count, 2 * tokens * kind.parameters, kind.bytes, split_products_, parts);
}

// Products with the routed experts. Of E experts, T tokens that choose k each touch
// E (1 − (1 − k/E)^T) if they choose evenly and apart from each other; as they do not, fewer tokens
// count. Every rank reads a slice of all of them; with ep > 1 whole ones, and the busiest rank is
// as far above the mean as the largest of ep normal numbers.
void ServeModel::add_experts(double tokens, ServeParts& parts) const {
  if (mixture_.count == 0) return;
  const engine::ExpertSpec& moe = scenario_->model.moe;
  const double groups = plan_.ep;
  const auto experts = static_cast<double>(moe.experts);
  const auto per_token = static_cast<double>(moe.per_token);
  const double held = experts / groups;
  const double share = plan_.tp / groups;  // ranks that share an expert
  const double touched =
      1 - std::pow(1 - per_token / experts, std::max(1.0, tokens * rates_->expert_evenness));
  const double above = std::sqrt(2 * std::log(groups));
  const double mean_visits = tokens * per_token / groups;
  const double visits =
      std::min(mean_visits + above * std::sqrt(mean_visits), tokens * std::min(per_token, held));
  const double distinct =
      std::min(held, held * touched + above * std::sqrt(held * touched * (1 - touched)));
  const double width = static_cast<double>(moe.ffn_hidden) / share;
  const double slower = rates_->expert_factor * (1 + rates_->expert_half_width / width);
  add_product(mixture_.count * slower, 2 * visits * expert_parameters_ / share,
              distinct * expert_bytes_ / share, expert_products_, parts);
  parts[ServePart::overhead] += mixture_.count * rates_->expert_layer_seconds;
}

void ServeModel::add_attention(const Iteration& work, ServeParts& parts) const {
  const engine::ModelSpec& model = scenario_->model;
  const auto window = static_cast<double>(model.sliding_window);
  const auto windowed = static_cast<double>(model.windowed_layers);
  const double whole = layers() - windowed;
  // Tokens that a generated one attends to, over all layers.
  const double seen = whole * work.context + windowed * std::min(work.context, window);
  const double reading = work.sequences * seen * kv_layer_bytes_ * reread_ /
                         (memory_rate_ * rates_->kv_bandwidth_share);
  const double scores =
      model.has_latent_attention()
          ? 2 * work.sequences * seen * score_width_ / (storage_peak_ * rates_->prefill_efficiency)
          : 0;  // of grouped heads the cache is read more slowly
  parts[ServePart::kv] += cubic_max(reading, scores);
  const double length = work.prompt_tokens;
  if (work.prompts * length <= 0) return;
  // The mean over a prompt's tokens.
  const double before =
      whole * length / 2 +
      windowed * (length > window ? window - window * window / (2 * length) : length / 2);
  parts[ServePart::compute] += 2 * work.prompts * length * before * prompt_width_ /
                               (storage_peak_ * rates_->prefill_efficiency) *
                               (1 + rates_->prefill_half_tokens / length);
  parts[ServePart::overhead] += layers() * rates_->prefill_layer_seconds;
}

// All-reduces after attention and MLP, whatever the MLP is: every rank has all tokens, and sums
// what its experts, or its slices of them, make of them.
void ServeModel::add_messages(double tokens, ServeParts& parts) const {
  if (plan_.tp == 1) return;
  const engine::ModelSpec& model = scenario_->model;
  const double bytes = tokens * static_cast<double>(model.hidden) * element_;
  const double each = rates_->reduce_factor * curve_.seconds(plan_.tp, bytes) +
                      rates_->reduce_extra_seconds * std::log2(plan_.tp);
  parts[ServePart::communication] += layers() * (model.parallel_block ? 1 : 2) * each;
}

// Elements that a token moves on a rank in all layers, apart from the products: residuals and
// norms, the MLP's activations, queries; of routed experts also four passes over its copies, which
// are sorted by expert and summed up again.
double ServeModel::elementwise_width() const {
  const engine::ModelSpec& model = scenario_->model;
  const auto hidden = static_cast<double>(model.hidden);
  const double matrices = model.gated_mlp ? 3 : 2;
  const double tp = plan_.tp;
  const auto query = static_cast<double>(model.q_width()) / tp;
  const auto visits = static_cast<double>(model.moe.per_token);
  const double dense = matrices * static_cast<double>(model.ffn_hidden) / tp;
  const double mixture = matrices *
                             (visits * static_cast<double>(model.moe.ffn_hidden) +
                              static_cast<double>(model.moe.shared_hidden)) /
                             tp +
                         4 * visits * hidden / plan_.ep;
  return layers() * (rates_->elementwise_passes * hidden + query) + dense_.count * dense +
         mixture_.count * mixture;
}

ServeParts ServeModel::iteration(const Iteration& work) const {
  const ServeRates& rates = *rates_;
  const auto hidden = static_cast<double>(scenario_->model.hidden);
  const double tokens = work.sequences + work.prompts * work.prompt_tokens;
  const double rows = work.sequences + work.prompts;
  ServeParts parts;
  add_products(tokens, parts);
  add_experts(tokens, parts);
  add_attention(work, parts);
  parts[ServePart::compute] += tokens * element_ * elementwise_width() / memory_rate_;
  add_messages(tokens, parts);
  for (double& seconds : parts.seconds) seconds *= turns_;
  const double logits =
      turns_ * std::max(2 * rows * head_weights_ / (storage_peak_ * rates.gemm_efficiency),
                        head_weights_ * element_ / (memory_rate_ * rates.gemm_bandwidth_share));
  parts[ServePart::weights] += logits;
  parts[ServePart::overhead] +=
      layers() * rates.layer_seconds + rates.step_seconds + rates.sequence_seconds * rows;
  for (size_t part = 0; part < parts.seconds.size(); ++part)
    if (static_cast<ServePart>(part) != ServePart::communication)
      parts.seconds[part] *= scenario_->compute_factor;
  if (plan_.pp > 1) {
    const Interconnect& link = scenario_->cluster.interconnect;
    const bool inside = plan_.tp * plan_.pp <= link.domain_gpus || link.nic_bytes_per_second <= 0;
    const double rate =
        inside ? link.p2p_bytes_per_second : link.nic_bytes_per_second / link.gpus_per_node;
    parts[ServePart::communication] +=
        (plan_.pp - 1) * (kHopSeconds + element_ * tokens * hidden / plan_.tp / rate);
  }
  return parts;
}

ServeParts ServeModel::step(double sequences, double context, double prompts) const {
  const double parts = std::clamp<double>(std::floor(sequences + prompts), 1, plan_.pp);
  return iteration({sequences / parts, context, prompts / parts,
                    static_cast<double>(scenario_->workload.input)});
}

double ServeModel::activation_bytes(double sequences) const {
  const engine::ModelSpec& model = scenario_->model;
  const ServeStack& stack = scenario_->stack;
  const auto input = static_cast<double>(scenario_->workload.input);
  double tokens = sequences * input;
  if (!runs_whole_batch())
    tokens = std::min(tokens, std::max(static_cast<double>(stack.prompt_tokens), input));
  const engine::ExpertSpec& moe = model.moe;
  const int64_t visited = std::max(dense_.count > 0 ? model.ffn_hidden : 0,
                                   moe.per_token * moe.ffn_hidden + moe.shared_hidden);
  const double copies = 6 + static_cast<double>(moe.per_token);  // a token's, one for each expert
  const double width = copies * static_cast<double>(model.hidden) +
                       static_cast<double>((model.gated_mlp ? 3 : 2) * visited + model.q_width() +
                                           2 * model.kv_width()) /
                           plan_.tp;
  constexpr double kSampledRows = 256;  // whose logits are live at a time, in-flight batching
  const double rows = runs_whole_batch() ? sequences : std::min(sequences, kSampledRows);
  return stack.activation_copies * element_ * tokens * width +
         stack.logit_bytes * rows * static_cast<double>(model.vocab);
}

double ServeModel::layer_bytes(double mixtures, double others) const {
  const auto experts = static_cast<double>(scenario_->model.moe.experts);
  const double mixture = mixture_.bytes + experts * expert_bytes_ / plan_.tp;
  return mixtures * mixture + others * dense_.bytes;
}

// The first layers of a mixture may be dense.
double ServeModel::weight_bytes(int stage) const {
  const auto here = stage_layers_.begin() + stage;
  const double before = std::accumulate(stage_layers_.begin(), here, 0.0), count = *here;
  const double dense = std::clamp(dense_.count - before, 0.0, count);
  double bytes = layer_bytes(count - dense, dense);
  if (stage == 0) bytes += first_bytes_;
  if (stage == plan_.pp - 1) bytes += last_bytes_;
  return bytes;
}

// It has as many of the heavier layers as there are: stacks put uneven ones on stages of their own
// choice.
double ServeModel::weight_bytes() const {
  const double stage = std::ceil(layers() / plan_.pp);
  const double mixtures = std::min(mixture_.count, stage);
  const double ends =
      plan_.pp == 1 ? first_bytes_ + last_bytes_ : std::max(first_bytes_, last_bytes_);
  return layer_bytes(mixtures, stage - mixtures) + ends;
}

double ServeModel::kv_bytes(int stage, double sequences) const {
  return sequences * sequence_tokens() * kv_layer_bytes_ *
         stage_layers_[static_cast<size_t>(stage)];
}

double ServeModel::runtime_bytes() const {
  const ServeStack& stack = scenario_->stack;
  return stack.base_bytes + stack.peer_bytes * (plan_.tp * plan_.pp - 1);
}

double ServeModel::headroom_bytes(double sequences) const {
  const ServeStack& stack = scenario_->stack;
  const double total = scenario_->cluster.device.memory_bytes;
  const double shared =
      stack.share_of == ShareOf::free ? total - weight_bytes() - runtime_bytes() : total;
  const double reserve = std::max(0.0, (1 - stack.memory_share) * shared);
  if (stack.share_of == ShareOf::all) return reserve;
  if (runs_whole_batch()) return 0;                             // there is no pool
  return std::max(0.0, reserve - activation_bytes(sequences));  // which live in the reserve
}

double ServeModel::kv_token_capacity() const {
  return std::max(0.0, -memory(static_cast<double>(plan_.batch), 0).lacking_bytes()) /
         kv_token_bytes_;
}

double ServeModel::most_sequences() const {
  return std::min(static_cast<double>(scenario_->stack.sequences),
                  std::floor(kv_token_capacity() / sequence_tokens()));
}

double ServeModel::sequence_tokens() const {
  const auto page = static_cast<double>(scenario_->stack.page_tokens);
  const auto tokens = static_cast<double>(scenario_->workload.input + scenario_->workload.output);
  return std::ceil(tokens / page) * page;
}

ServeMemory ServeModel::memory(double sequences) const {
  return memory(sequences, sequences * sequence_tokens());
}

ServeMemory ServeModel::memory(double sequences, double kv_tokens) const {
  ServeMemory memory;
  memory.weight_bytes = weight_bytes();
  memory.kv_bytes = kv_tokens * kv_token_bytes_;
  memory.activation_bytes = activation_bytes(sequences);
  memory.runtime_bytes = runtime_bytes();
  memory.headroom_bytes = headroom_bytes(sequences);
  memory.capacity_bytes = scenario_->cluster.device.memory_bytes;
  return memory;
}

}  // namespace tuner
