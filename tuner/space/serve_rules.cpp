// Rules of serving plans.
#include "tuner/space/serve_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "engine/base/units.h"

namespace tuner {

using engine::Precision;
using engine::Violation;

namespace {

constexpr int kLargestTensor = 64;

bool divides_heads(const ServeScenario& s, int tp) { return s.model.heads % tp == 0; }

// A rank holds whole KV heads, or shares one with other ranks.
bool divides_kv_heads(const ServeScenario& s, int tp) {
  return s.model.kv_heads % tp == 0 || tp % s.model.kv_heads == 0;
}
// The MLP that every rank holds a slice of: that of dense layers, or of the shared experts.
int64_t split_width(const ServeScenario& s) {
  if (s.model.is_dense() || s.model.moe.dense_layers > 0) return s.model.ffn_hidden;
  return s.model.moe.shared_hidden;
}
bool divides_width(const ServeScenario& s, int tp) {
  return split_width(s) % tp == 0 && s.model.moe.shared_hidden % tp == 0;
}
bool divides_vocab(const ServeScenario& s, int tp) {
  return !s.stack.divisible_vocab || s.model.vocab % tp == 0;
}

bool divides_experts(const ServeScenario& s, int tp, int ep) {
  if (s.model.is_dense()) return ep == 1;
  return tp % ep == 0 && s.model.moe.experts % ep == 0 && s.model.moe.ffn_hidden % (tp / ep) == 0;
}

// Of the ep that are legal with tp, those next to the plan's, below and above.
std::vector<int> nearest_experts(const ServeScenario& s, int tp, int ep) {
  std::vector<int> near;
  for (int low = std::min(ep, tp); low >= 1 && near.empty(); --low)
    if (divides_experts(s, tp, low)) near.push_back(low);
  for (int high = ep + 1; high <= tp; ++high)
    if (divides_experts(s, tp, high)) return near.push_back(high), near;
  return near;
}

// "tp 4", or "tp 4 and ep 2" where the plan's ep is not legal with it; nothing where tp is not
// legal with any.
std::optional<std::string> legal_ranks(const ServeScenario& s, int tp, int ep) {
  if (!tensor_is_legal(s, tp)) return std::nullopt;
  const std::vector<int> near = nearest_experts(s, tp, ep);
  if (near.empty()) return std::nullopt;
  if (near.front() == ep) return fmt::format("tp {}", tp);
  return fmt::format("tp {} and ep {}", tp, near.front());
}

// The most ranks of a replica's stage, where the rest of the plan stays.
int most_tensor(const ServeScenario& s, const ServePlan& plan) {
  const int64_t each = int64_t{plan.pp} * plan.replicas;
  return static_cast<int>(std::min<int64_t>(kLargestTensor, s.cluster.gpus / each));
}

// The legal degrees nearest to the plan's tp for which there are GPUs, below and above.
std::vector<std::string> nearest_tensor(const ServeScenario& s, const ServePlan& plan) {
  const int most = std::max(1, most_tensor(s, plan));
  std::vector<std::string> near;
  for (int low = std::min(plan.tp - 1, most); low >= 1 && near.empty(); --low)
    if (const auto text = legal_ranks(s, low, plan.ep)) near.push_back(*text);
  for (int high = plan.tp + 1; high <= most; ++high)
    if (const auto text = legal_ranks(s, high, plan.ep)) return near.push_back(*text), near;
  return near;
}

// Fewer replicas, else fewer ranks or stages, else one replica of the most ranks.
std::vector<std::string> nearest_sizes(const ServeScenario& s, const ServePlan& plan) {
  const int64_t gpus = s.cluster.gpus, replica = int64_t{plan.tp} * plan.pp;
  if (replica <= gpus) return {fmt::format("replicas {}", gpus / replica)};
  std::vector<std::string> near;
  if (most_tensor(s, plan) >= 1) near = nearest_tensor(s, plan);
  if (const int64_t stages = gpus / (int64_t{plan.tp} * plan.replicas); stages >= 1)
    near.push_back(fmt::format("pp {}", stages));
  if (!near.empty()) return near;
  ServePlan one = plan;
  one.pp = one.replicas = 1;
  for (const std::string& ranks : nearest_tensor(s, one))
    near.push_back(ranks + " and pp 1 and replicas 1");
  return near;
}

std::vector<std::string> names_of(const std::vector<ServeFormat>& formats) {
  std::vector<std::string> names;
  for (const ServeFormat format : formats) names.emplace_back(name_of(format));
  return names;
}

bool holds(const std::vector<ServeFormat>& list, ServeFormat format) {
  return std::find(list.begin(), list.end(), format) != list.end();
}

void add_tensor(const ServeScenario& s, const ServePlan& plan, std::vector<Violation>& found) {
  const int tp = plan.tp;
  const auto near = [&] { return nearest_tensor(s, plan); };
  if (!divides_heads(s, tp))
    found.push_back({"AT0102",
                     fmt::format("tp {} does not divide the {} attention heads", tp, s.model.heads),
                     near()});
  if (!divides_kv_heads(s, tp))
    found.push_back({"AT0103",
                     fmt::format("tp {} does not divide the {} KV heads, nor is it a multiple", tp,
                                 s.model.kv_heads),
                     near()});
  if (!divides_width(s, tp))
    found.push_back({"AT0107",
                     fmt::format("tp {} does not divide the MLP width {}", tp, split_width(s)),
                     near()});
  if (!divides_vocab(s, tp))
    found.push_back({"AT0108",
                     fmt::format("tp {} does not divide the vocabulary {}, which {} does not pad",
                                 tp, s.model.vocab, s.stack.name),
                     near()});
}

void add_experts(const ServeScenario& s, const ServePlan& plan, std::vector<Violation>& found) {
  if (s.model.is_dense()) {
    if (plan.ep > 1)
      found.push_back({"AT0153",
                       fmt::format("ep {} needs experts, and {} is dense", plan.ep, s.model.name),
                       {"ep 1"}});
    return;
  }
  if (divides_experts(s, plan.tp, plan.ep)) return;
  std::vector<std::string> near;
  if (tensor_is_legal(s, plan.tp))
    for (const int ep : nearest_experts(s, plan.tp, plan.ep))
      near.push_back(fmt::format("ep {}", ep));
  if (near.empty()) near = nearest_tensor(s, plan);
  found.push_back({"AT0153",
                   fmt::format("ep {} must divide tp {} and the {} experts, and tp / ep their "
                               "width {}",
                               plan.ep, plan.tp, s.model.moe.experts, s.model.moe.ffn_hidden),
                   std::move(near)});
}

// Whether the device has the arithmetic that the format asks for. Integers are stored only.
bool computes(const DeviceSpec& device, ServeFormat format) {
  if (device.is_cpu()) return true;
  if (format == ServeFormat::bf16) return device.peak(Precision::bf16) > 0;
  if (format == ServeFormat::fp8) return device.peak(Precision::fp8) > 0;
  return !is_float4(format) || device.peak(Precision::nvfp4) > 0;
}

bool widens(const ServeStack& stack, const DeviceSpec& device, ServeFormat format) {
  const auto found = stack.widened.find(format);
  return found != stack.widened.end() && std::find(found->second.begin(), found->second.end(),
                                                   device.architecture) != found->second.end();
}

// A cache of 8 bits is widened by attention itself.
bool keeps_cache(const DeviceSpec& device, ServeFormat kv) {
  return kv != ServeFormat::bf16 || computes(device, kv);
}

std::vector<ServeFormat> legal_caches(const ServeScenario& s) {
  std::vector<ServeFormat> formats = s.stack.kv;
  std::erase_if(formats, [&](ServeFormat f) { return !keeps_cache(s.cluster.device, f); });
  return formats;
}

void add_weights(const ServeScenario& s, ServeFormat weights, std::vector<Violation>& found) {
  const std::vector<ServeFormat> legal = legal_weights(s);
  if (holds(legal, weights)) return;
  const DeviceSpec& device = s.cluster.device;
  if (!holds(s.stack.weights, weights))
    found.push_back({"AT0130",
                     fmt::format("the stack {} has no {} weights", s.stack.name, name_of(weights)),
                     names_of(legal)});
  else
    found.push_back({"AT0129",
                     fmt::format("{} has no {} arithmetic, and the stack {} has no kernels there "
                                 "that widen such weights to 16 bits",
                                 device.title, name_of(weights), s.stack.name),
                     names_of(legal)});
}

void add_cache(const ServeScenario& s, ServeFormat kv, std::vector<Violation>& found) {
  if (!holds(s.stack.kv, kv))
    found.push_back({"AT0130",
                     fmt::format("the stack {} has no {} KV cache", s.stack.name, name_of(kv)),
                     names_of(legal_caches(s))});
  else if (!keeps_cache(s.cluster.device, kv))
    found.push_back({"AT0129",
                     fmt::format("{} has no {} arithmetic for its KV cache", s.cluster.device.title,
                                 name_of(kv)),
                     names_of(legal_caches(s))});
}

// What the model has and the stack does not run.
std::vector<std::string_view> lacking_traits(const ServeStack& stack,
                                             const engine::ModelSpec& model) {
  std::vector<std::string_view> titles;
  for (const ModelTrait& trait : stack.lacks)
    if (trait.has(model)) titles.push_back(trait.title);
  return titles;
}

std::vector<std::string> stacks_that_run(const engine::ModelSpec& model, bool in_flight) {
  std::vector<std::string> near;
  for (const std::string& name : serve_stack_names()) {
    const ServeStack stack = find_serve_stack(name);
    if (lacking_traits(stack, model).empty() && (stack.in_flight || !in_flight))
      near.push_back("stack " + name);
  }
  return near;
}

// Lengths that fill the positions: the prompt kept, the output kept, or, where neither leaves room
// for the other, both in their proportion.
std::vector<std::string> nearest_lengths(const ServeWorkload& work, int64_t positions) {
  std::vector<std::string> near;
  if (work.input < positions) near.push_back(fmt::format("output {}", positions - work.input));
  if (work.output < positions) near.push_back(fmt::format("input {}", positions - work.output));
  if (!near.empty() || positions < 2) return near;
  const double share =
      static_cast<double>(work.input) / static_cast<double>(work.input + work.output);
  const auto input = std::clamp<int64_t>(
      static_cast<int64_t>(share * static_cast<double>(positions)), 1, positions - 1);
  return {fmt::format("input {} and output {}", input, positions - input)};
}

}  // namespace

ServeFormat checkpoint_weights(const ServeScenario& s) {
  const auto found =
      std::find(kServeFormatNames.begin(), kServeFormatNames.end(), s.model.weight_format);
  if (found != kServeFormatNames.end()) {
    const auto format = static_cast<ServeFormat>(found - kServeFormatNames.begin());
    // Devices without bf16 read such a checkpoint as fp16; nobody serves in f32 on a GPU.
    const bool wide = format == ServeFormat::f32 || format == ServeFormat::bf16;
    if (!wide) return format;
  }
  const DeviceSpec& device = s.cluster.device;
  if (device.is_cpu())
    return holds(s.stack.weights, ServeFormat::f32) ? ServeFormat::f32 : ServeFormat::bf16;
  return device.peak(Precision::bf16) > 0 ? ServeFormat::bf16 : ServeFormat::fp16;
}

std::vector<ServeFormat> legal_weights(const ServeScenario& s) {
  std::vector<ServeFormat> formats = s.stack.weights;
  std::erase_if(formats, [&](ServeFormat f) {
    return !computes(s.cluster.device, f) && !widens(s.stack, s.cluster.device, f);
  });
  return formats;
}

std::vector<Violation> serve_format_violations(const ServeScenario& s,
                                               const std::vector<ServeFormat>& weights,
                                               const std::vector<ServeFormat>& kv) {
  std::vector<Violation> found;
  for (const ServeFormat format : weights) add_weights(s, format, found);
  for (const ServeFormat format : kv) add_cache(s, format, found);
  return found;
}

ServeFormat checkpoint_kv(const ServeScenario& s, ServeFormat weights) {
  if (s.model.kv_format == "fp8") return ServeFormat::fp8;
  const DeviceSpec& device = s.cluster.device;
  if (device.is_cpu()) return weights == ServeFormat::f32 ? ServeFormat::f32 : ServeFormat::bf16;
  return device.peak(Precision::bf16) > 0 && weights != ServeFormat::fp16 ? ServeFormat::bf16
                                                                          : ServeFormat::fp16;
}

std::vector<Violation> serve_scenario_violations(const ServeScenario& s) {
  std::vector<Violation> found;
  const ServeWorkload& work = s.workload;
  const bool loaded = work.arrival == Arrival::closed_loop || work.arrival == Arrival::poisson;
  if (const auto& reasons = s.model.not_modelled; !reasons.empty())
    found.push_back({"AT0301",
                     fmt::format("predictions of serving do not cover {} yet: it uses {}",
                                 s.model.name, fmt::join(reasons, ", ")),
                     {}});
  if (const auto lacks = lacking_traits(s.stack, s.model); !lacks.empty())
    found.push_back({"AT0152",
                     fmt::format("the stack {} does not run {}: it uses {}", s.stack.name,
                                 s.model.name, fmt::join(lacks, ", ")),
                     stacks_that_run(s.model, loaded)});
  const int64_t length = work.input + work.output;
  if (s.model.positions > 0 && length > s.model.positions) {
    found.push_back(
        {"AT0115",
         fmt::format("input {} + output {} = {} tokens are longer than the {} positions of {}",
                     work.input, work.output, length, s.model.positions, s.model.name),
         nearest_lengths(work, s.model.positions)});
  }
  if (loaded && !s.stack.in_flight) {
    std::vector<std::string> near = stacks_that_run(s.model, loaded);
    near.insert(near.begin(), "a static batch");
    found.push_back({"AT0151",
                     fmt::format("the stack {} runs static batches only, and requests that arrive "
                                 "one by one need in-flight batching",
                                 s.stack.name),
                     std::move(near)});
  }
  return found;
}

bool tensor_is_legal(const ServeScenario& s, int tp) {
  return divides_heads(s, tp) && divides_kv_heads(s, tp) && divides_width(s, tp) &&
         divides_vocab(s, tp);
}

std::vector<Violation> serve_violations(const ServeScenario& s, const ServePlan& plan) {
  std::vector<Violation> found = serve_scenario_violations(s);
  const int64_t gpus = int64_t{plan.tp} * plan.pp * plan.replicas;
  if (gpus > s.cluster.gpus)
    found.push_back(
        {"AT0101",
         fmt::format("tp · pp · replicas = {} needs more than the {} GPUs", gpus, s.cluster.gpus),
         nearest_sizes(s, plan)});
  add_tensor(s, plan, found);
  add_experts(s, plan, found);
  if (plan.pp > 1 && !s.stack.pipeline)
    found.push_back({"AT0121",
                     fmt::format("the stack {} has no pipeline parallelism", s.stack.name),
                     {"pp 1"}});
  if (plan.pp > s.model.layers)
    found.push_back(
        {"AT0112",
         fmt::format("pp {} has more stages than the {} layers", plan.pp, s.model.layers),
         {fmt::format("pp {}",
                      std::clamp<int64_t>(s.cluster.gpus / (int64_t{plan.tp} * plan.replicas), 1,
                                          s.model.layers))}});
  for (Violation& one : serve_format_violations(s, {plan.weights}, {plan.kv}))
    found.push_back(std::move(one));
  return found;
}

}  // namespace tuner
