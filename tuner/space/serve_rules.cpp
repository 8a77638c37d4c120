// Rules of serving plans.
#include "tuner/space/serve_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

// The legal degrees nearest to `tp`, below and above.
std::vector<std::string> nearest_tensor(const ServeScenario& s, int tp) {
  std::vector<std::string> near;
  for (int low = tp - 1; low >= 1; --low)
    if (tensor_is_legal(s, low)) {
      near.push_back(fmt::format("tp {}", low));
      break;
    }
  for (int high = tp + 1; high <= kLargestTensor; ++high)
    if (tensor_is_legal(s, high)) {
      near.push_back(fmt::format("tp {}", high));
      break;
    }
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

void add_tensor(const ServeScenario& s, int tp, std::vector<Violation>& found) {
  const auto near = [&] { return nearest_tensor(s, tp); };
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

bool divides_experts(const ServeScenario& s, int tp, int ep) {
  return tp % ep == 0 && s.model.moe.experts % ep == 0 && s.model.moe.ffn_hidden % (tp / ep) == 0;
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
  for (int ep = 1; ep <= plan.tp; ++ep)
    if (divides_experts(s, plan.tp, ep)) near.push_back(fmt::format("ep {}", ep));
  if (near.empty()) near = nearest_tensor(s, plan.tp);
  found.push_back({"AT0153",
                   fmt::format("ep {} must divide tp {} and the {} experts, and tp / ep their "
                               "width {}",
                               plan.ep, plan.tp, s.model.moe.experts, s.model.moe.ffn_hidden),
                   std::move(near)});
}

void add_formats(const ServeScenario& s, const ServePlan& plan, std::vector<Violation>& found) {
  if (!holds(s.stack.weights, plan.weights))
    found.push_back(
        {"AT0130",
         fmt::format("the stack {} has no {} weights", s.stack.name, name_of(plan.weights)),
         names_of(s.stack.weights)});
  if (!holds(s.stack.kv, plan.kv))
    found.push_back({"AT0130",
                     fmt::format("the stack {} has no {} KV cache", s.stack.name, name_of(plan.kv)),
                     names_of(s.stack.kv)});
}

// What the model has and the stack does not run.
std::vector<std::string_view> lacking_traits(const ServeStack& stack,
                                             const engine::ModelSpec& model) {
  std::vector<std::string_view> titles;
  for (const ModelTrait& trait : stack.lacks)
    if (trait.has(model)) titles.push_back(trait.title);
  return titles;
}

std::vector<std::string> stacks_that_run(const engine::ModelSpec& model) {
  std::vector<std::string> near;
  for (const std::string& name : serve_stack_names())
    if (lacking_traits(find_serve_stack(name), model).empty()) near.push_back("stack " + name);
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

ServeFormat checkpoint_kv(const ServeScenario& s, ServeFormat weights) {
  const bool low = weights == ServeFormat::fp8 || weights == ServeFormat::fp4;
  if (s.model.kv_format == "fp8" || (low && s.stack.low_precision_kv)) return ServeFormat::fp8;
  const DeviceSpec& device = s.cluster.device;
  if (device.is_cpu()) return weights == ServeFormat::f32 ? ServeFormat::f32 : ServeFormat::bf16;
  return device.peak(Precision::bf16) > 0 && weights != ServeFormat::fp16 ? ServeFormat::bf16
                                                                          : ServeFormat::fp16;
}

std::vector<Violation> serve_scenario_violations(const ServeScenario& s) {
  std::vector<Violation> found;
  if (const auto& reasons = s.model.not_modelled; !reasons.empty())
    found.push_back({"AT0301",
                     fmt::format("predictions of serving do not cover {} yet: it uses {}",
                                 s.model.name, fmt::join(reasons, ", ")),
                     {}});
  if (const auto lacks = lacking_traits(s.stack, s.model); !lacks.empty())
    found.push_back({"AT0152",
                     fmt::format("the stack {} does not run {}: it uses {}", s.stack.name,
                                 s.model.name, fmt::join(lacks, ", ")),
                     stacks_that_run(s.model)});
  const ServeWorkload& work = s.workload;
  const int64_t length = work.input + work.output;
  if (s.model.positions > 0 && length > s.model.positions) {
    found.push_back(
        {"AT0115",
         fmt::format("input {} + output {} = {} tokens are longer than the {} positions of {}",
                     work.input, work.output, length, s.model.positions, s.model.name),
         nearest_lengths(work, s.model.positions)});
  }
  const bool loaded = work.arrival == Arrival::closed_loop || work.arrival == Arrival::poisson;
  if (loaded && !s.stack.in_flight)
    found.push_back({"AT0151",
                     fmt::format("the stack {} runs static batches only, and requests that arrive "
                                 "one by one need in-flight batching",
                                 s.stack.name),
                     {"a static batch", "stack tensorrt-llm", "stack vllm"}});
  return found;
}

bool tensor_is_legal(const ServeScenario& s, int tp) {
  return divides_heads(s, tp) && divides_kv_heads(s, tp) && divides_width(s, tp) &&
         divides_vocab(s, tp);
}

std::vector<Violation> serve_violations(const ServeScenario& s, const ServePlan& plan) {
  std::vector<Violation> found = serve_scenario_violations(s);
  if (plan.gpus() > s.cluster.gpus)
    found.push_back(
        {"AT0101",
         fmt::format("tp · pp · replicas = {} needs more than the {} GPUs", plan.gpus(),
                     s.cluster.gpus),
         {fmt::format("replicas {}", std::max(1, s.cluster.gpus / (plan.tp * plan.pp)))}});
  add_tensor(s, plan.tp, found);
  add_experts(s, plan, found);
  if (plan.pp > 1 && !s.stack.pipeline)
    found.push_back({"AT0121",
                     fmt::format("the stack {} has no pipeline parallelism", s.stack.name),
                     {"pp 1"}});
  if (plan.pp > s.model.layers)
    found.push_back(
        {"AT0112",
         fmt::format("pp {} has more stages than the {} layers", plan.pp, s.model.layers),
         {fmt::format("pp {}", s.model.layers)}});
  add_formats(s, plan, found);
  return found;
}

}  // namespace tuner
