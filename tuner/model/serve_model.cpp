// Time and memory of serving iterations.
#include "tuner/model/serve_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tuner {

using engine::Precision;

namespace {

constexpr double kActivationBytes = 2;  // an element, whatever the weights are
constexpr double kHopSeconds = 10e-6;   // of a message between stages

// Near the larger of the two, and smooth where they meet.
double cubic_max(double a, double b) { return std::cbrt(a * a * a + b * b * b); }

double activation_element(const DeviceSpec& device) {
  return device.is_cpu() ? 4 : kActivationBytes;
}

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
    : scenario_(&scenario), plan_(plan), rates_(&scenario.rates_of(plan.weights)) {
  const DeviceSpec& device = scenario.cluster.device;
  if (plan.tp > 1) curve_ = scenario.curves.curve(scenario.cluster.interconnect, device, plan.tp);
  memory_rate_ = device.memory_bytes_per_second;
  product_peak_ = device.peak(product_precision(plan.weights, device));
  storage_peak_ = device.peak(product_precision(ServeFormat::bf16, device));
  if (device.is_cpu()) {
    const int ranks = plan.gpus();
    const int cores = std::max(1, device.multiprocessors / ranks);
    for (double* rate : {&memory_rate_, &product_peak_, &storage_peak_}) *rate *= cores;
    turns_ = std::max(1.0, static_cast<double>(plan.tp * plan.replicas) / device.multiprocessors);
  }
  size_layer();
}

void ServeModel::size_layer() {
  const engine::ModelSpec& model = scenario_->model;
  const double tp = plan_.tp;
  const int64_t vocab = engine::padded_vocab(model.vocab, 1, plan_.tp);
  const engine::RankParameters rank = engine::rank_parameters(model, plan_.tp, vocab);
  const double kv_heads =
      std::max(1.0, static_cast<double>(model.kv_heads) / tp);  // replicated beyond one a rank
  const double element = activation_element(scenario_->cluster.device);
  layer_weights_ = static_cast<double>(rank.layer);
  layer_bytes_ = layer_weights_ * bytes_of(plan_.weights);
  kv_layer_bytes_ = 2 * kv_heads * static_cast<double>(model.head_dim) * bytes_of(plan_.kv);
  elementwise_width_ =
      static_cast<double>((model.gated_mlp ? 3 : 2) * model.ffn_hidden + model.q_width()) / tp;
  head_weights_ = static_cast<double>(rank.head);
  const double first = static_cast<double>(rank.embedding + rank.positions) * element;
  const double last = static_cast<double>(rank.head + rank.final_norm) * element;
  // A tied matrix is held once where both ends are on one GPU.
  const bool both = plan_.pp == 1;
  end_bytes_ = both ? first + (model.tied_embeddings ? 0 : last) : std::max(first, last);
  const double layers = std::ceil(static_cast<double>(model.layers) / plan_.pp);
  kv_token_bytes_ = kv_layer_bytes_ * layers;

  const int64_t group = model.heads / model.kv_heads;
  if (!scenario_->stack.current().reads_kv_once(group)) {
    const double again = rates_->cache_reread_factor * static_cast<double>(group) * memory_rate_ *
                         rates_->kv_bandwidth_share / rates_->cache_bytes_per_second;
    reread_ = std::pow(1 + std::pow(again, 6), 1.0 / 6);
  }
}

ServeParts ServeModel::iteration(const Iteration& work) const {
  const engine::ModelSpec& model = scenario_->model;
  const ServeRates& rates = *rates_;
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  const double element = activation_element(scenario_->cluster.device);
  const double prompt_tokens = work.prompts * work.prompt_tokens;
  const double tokens = work.sequences + prompt_tokens;
  const double rows = work.sequences + work.prompts;
  ServeParts parts;

  const double arithmetic = 2 * tokens * layer_weights_ / (product_peak_ * rates.gemm_efficiency);
  const double reading = layer_bytes_ / (memory_rate_ * rates.gemm_bandwidth_share);
  const double gemm = cubic_max(arithmetic, reading);
  // The excess over the smaller one belongs to the larger.
  parts[arithmetic > reading ? ServePart::compute : ServePart::weights] += layers * gemm;

  parts[ServePart::kv] += layers * work.sequences * work.context * kv_layer_bytes_ * reread_ /
                          (memory_rate_ * rates.kv_bandwidth_share);
  if (prompt_tokens > 0) {
    const double scores = 4 * prompt_tokens * work.prompt_tokens / 2 *
                          static_cast<double>(model.q_width()) / plan_.tp;
    parts[ServePart::compute] += layers * scores / (storage_peak_ * rates.prefill_efficiency) *
                                 (1 + rates.prefill_half_tokens / work.prompt_tokens);
    parts[ServePart::overhead] += layers * rates.prefill_layer_seconds;
  }
  parts[ServePart::compute] += layers * tokens * element *
                               (rates.elementwise_passes * hidden + elementwise_width_) /
                               memory_rate_;

  if (plan_.tp > 1) {
    const double each = rates.reduce_factor * curve_.seconds(plan_.tp, tokens * hidden * element) +
                        rates.reduce_extra_seconds * std::log2(plan_.tp);
    parts[ServePart::communication] += layers * (model.parallel_block ? 1 : 2) * each;
  }
  for (double& seconds : parts.seconds) seconds *= turns_;
  const double logits =
      turns_ * std::max(2 * rows * head_weights_ / (storage_peak_ * rates.gemm_efficiency),
                        head_weights_ * element / (memory_rate_ * rates.gemm_bandwidth_share));
  parts[ServePart::weights] += logits;
  parts[ServePart::overhead] +=
      layers * rates.layer_seconds + rates.step_seconds + rates.sequence_seconds * rows;
  if (plan_.pp > 1) {
    const Interconnect& link = scenario_->cluster.interconnect;
    const bool inside = plan_.tp * plan_.pp <= link.domain_gpus || link.nic_bytes_per_second <= 0;
    const double rate =
        inside ? link.p2p_bytes_per_second : link.nic_bytes_per_second / link.gpus_per_node;
    parts[ServePart::communication] +=
        (plan_.pp - 1) * (kHopSeconds + element * tokens * hidden / plan_.tp / rate);
  }
  return parts;
}

bool ServeModel::runs_whole_batch() const {
  const ServeStack& stack = scenario_->stack;
  return !stack.in_flight ||
         (stack.current().static_engine && scenario_->workload.arrival == Arrival::static_batch);
}

double ServeModel::activation_bytes(double sequences) const {
  const engine::ModelSpec& model = scenario_->model;
  const ServeStack& stack = scenario_->stack;
  const auto input = static_cast<double>(scenario_->workload.input);
  double tokens = sequences * input;
  if (!runs_whole_batch())
    tokens = std::min(tokens, std::max(static_cast<double>(stack.prompt_tokens), input));
  const double width = 6 * static_cast<double>(model.hidden) +
                       static_cast<double>((model.gated_mlp ? 3 : 2) * model.ffn_hidden +
                                           model.q_width() + 2 * model.kv_width()) /
                           plan_.tp;
  constexpr double kSampledRows = 256;  // whose logits are live at a time, in-flight batching
  const double rows = runs_whole_batch() ? sequences : std::min(sequences, kSampledRows);
  return stack.activation_copies * tokens * width +
         stack.logit_bytes * rows * static_cast<double>(model.vocab);
}

double ServeModel::weight_bytes() const {
  return layer_bytes_ * std::ceil(static_cast<double>(scenario_->model.layers) / plan_.pp) +
         end_bytes_;
}

double ServeModel::runtime_bytes() const {
  const ServeStack& stack = scenario_->stack;
  return stack.base_bytes + stack.peer_bytes * (plan_.tp * plan_.pp - 1);
}

double ServeModel::kv_token_capacity() const {
  const ServeStack& stack = scenario_->stack;
  const double total = scenario_->cluster.device.memory_bytes;
  const double free = total - weight_bytes() - runtime_bytes();
  const double share =
      stack.share_of_free ? stack.memory_share * free : free - (1 - stack.memory_share) * total;
  const double left = std::min(share, free - activation_bytes(static_cast<double>(plan_.batch)));
  return std::max(0.0, left / kv_token_bytes_);
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
  ServeMemory memory;
  memory.weight_bytes = weight_bytes();
  memory.kv_bytes = sequences * sequence_tokens() * kv_token_bytes_;
  memory.activation_bytes = activation_bytes(sequences);
  memory.runtime_bytes = runtime_bytes();
  memory.capacity_bytes = scenario_->cluster.device.memory_bytes;
  return memory;
}

}  // namespace tuner
