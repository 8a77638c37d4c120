// The constants of the serving model by scope, and all-reduce curves.
#include "tuner/model/serve_rates.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"
#include "tuner/model/serve_scenario.h"

namespace tuner {

using engine::Json;
using engine::Precision;

namespace {

struct Field {
  std::string_view name;
  double ServeRates::*value;
  bool of_experts = false;  // means nothing to a dense model
};

constexpr Field kFields[] = {
    {"gemm_efficiency", &ServeRates::gemm_efficiency},
    {"gemm_bandwidth_share", &ServeRates::gemm_bandwidth_share},
    {"kv_bandwidth_share", &ServeRates::kv_bandwidth_share},
    {"cache_bytes_per_second", &ServeRates::cache_bytes_per_second},
    {"cache_reread_factor", &ServeRates::cache_reread_factor},
    {"prefill_efficiency", &ServeRates::prefill_efficiency},
    {"prefill_half_tokens", &ServeRates::prefill_half_tokens},
    {"elementwise_passes", &ServeRates::elementwise_passes},
    {"expert_factor", &ServeRates::expert_factor, true},
    {"expert_half_width", &ServeRates::expert_half_width, true},
    {"expert_evenness", &ServeRates::expert_evenness, true},
    {"expert_layer_seconds", &ServeRates::expert_layer_seconds, true},
    {"layer_seconds", &ServeRates::layer_seconds},
    {"prefill_layer_seconds", &ServeRates::prefill_layer_seconds},
    {"step_seconds", &ServeRates::step_seconds},
    {"sequence_seconds", &ServeRates::sequence_seconds},
    {"server_seconds", &ServeRates::server_seconds},
    {"server_client_seconds", &ServeRates::server_client_seconds},
    {"max_load_loss", &ServeRates::max_load_loss},
    {"reduce_factor", &ServeRates::reduce_factor},
    {"reduce_extra_seconds", &ServeRates::reduce_extra_seconds},
    {"latency_sigma", &ServeRates::latency_sigma},
    {"ttft_sigma", &ServeRates::ttft_sigma},
    {"tpot_sigma", &ServeRates::tpot_sigma},
    {"throughput_sigma", &ServeRates::throughput_sigma},
    {"loaded_latency_sigma", &ServeRates::loaded_latency_sigma},
    {"loaded_ttft_sigma", &ServeRates::loaded_ttft_sigma},
};

std::span<const ConstantName> field_names() {
  static const std::vector<ConstantName> names = [] {
    std::vector<ConstantName> list;
    for (const Field& field : kFields) list.push_back({field.name});
    return list;
  }();
  return names;
}

// A ring pays a latency at each of its steps; every doubling of the nodes costs a longer one.
constexpr double kRingStepSeconds = 2e-6, kNetworkSeconds = 60e-6;
// What a ring over several nodes reaches of what the network cards of a node carry together, by
// FasterTransformer's runs on two and four nodes (docs/gpt_guide.md).
constexpr double kNetworkShare = 0.9;

}  // namespace

double ReduceCurve::seconds(int ranks, double bytes) const {
  const double n = ranks;
  return std::min(one_shot_seconds + (n - 1) * bytes / one_shot_bytes_per_second,
                  ring_seconds + 2 * (n - 1) / n * bytes / ring_bytes_per_second);
}

ReduceCurves ReduceCurves::from_json(const Json& list, const std::string& origin) {
  engine::Problems problems(origin);
  ReduceCurves curves;
  const Json whole = {{"all_reduce", list}};
  engine::ObjectReader root(whole, "", problems);
  for (engine::ObjectReader& object : root.objects("all_reduce")) {
    Entry entry;
    entry.link = object.text("link");
    entry.ranks = static_cast<int>(object.integer("ranks", {2, 1024}));
    constexpr engine::NumberRange kSeconds{0, 1}, kRate{1e6, 1e15};
    entry.curve.one_shot_seconds = object.number("one_shot_seconds", kSeconds);
    entry.curve.one_shot_bytes_per_second = object.number("one_shot_bytes_per_second", kRate);
    entry.curve.ring_seconds = object.number("ring_seconds", kSeconds);
    entry.curve.ring_bytes_per_second = object.number("ring_bytes_per_second", kRate);
    object.text("source");
    object.finish();
    curves.entries_.push_back(std::move(entry));
  }
  problems.throw_if_any();
  return curves;
}

const ReduceCurves::Entry* ReduceCurves::find(const std::string& link, int ranks) const {
  const Entry* best = nullptr;
  for (const Entry& entry : entries_) {
    if (!link.starts_with(entry.link)) continue;
    const bool enough = entry.ranks >= ranks;
    if (!best || (enough && (best->ranks < ranks || entry.ranks < best->ranks)) ||
        (!enough && best->ranks < ranks && entry.ranks > best->ranks))
      best = &entry;
  }
  return best;
}

ReduceCurve ReduceCurves::curve(const Interconnect& link, const DeviceSpec& device,
                                int ranks) const {
  const int inside = std::min(ranks, link.domain_gpus);
  ReduceCurve curve;
  if (const Entry* entry = find(link.link, inside)) {
    curve = entry->curve;
  } else if (inside > 1) {
    const double rate = link.all_reduce.at(inside);
    curve = {2 * kRingStepSeconds, rate, 2 * (inside - 1) * kRingStepSeconds, rate};
  }
  if (device.is_cpu() || ranks <= link.domain_gpus) return curve;
  // Over several nodes: the ring is as fast as the network of a node, whose cards work together.
  const double hops = std::log2(static_cast<double>(ranks) / inside);
  const double start = kNetworkSeconds * hops;
  const double rate =
      std::min(curve.ring_bytes_per_second, kNetworkShare * link.nic_bytes_per_second);
  return {start, rate, start, rate};
}

ServeRatesTable::ServeRatesTable(const Json& json, const std::string& origin)
    : ConstantTable(json, origin, "autotune.serve_rates/1", field_names()),
      curves_(ReduceCurves::from_json(json.value("all_reduce", Json::array()), origin)) {}

ServeRatesTable ServeRatesTable::from_json(const Json& json, const std::string& origin) {
  return {json, origin};
}

ServeRatesTable ServeRatesTable::load() {
  const DataFile file = find_data_file("profiles", "serve_rates", "rates file");
  return from_json(engine::parse_json(file.text, file.origin), file.origin);
}

const std::vector<std::string>& ServeRatesTable::constant_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Field& field : kFields) list.emplace_back(field.name);
    return list;
  }();
  return names;
}

bool ServeRatesTable::is_of_experts(int constant) {
  return kFields[static_cast<size_t>(constant)].of_experts;
}

std::vector<size_t> ServeRatesTable::applicable(const ClusterSpec& cluster, const ServeStack& stack,
                                                ServeFormat weights, bool mixture) const {
  const Precision product = product_precision(weights, cluster.device);
  const std::string format(product == Precision::fp16 ? "bf16" : name_of(product));
  const std::string& architecture = cluster.device.architecture;
  // Weights that kernels unpack before 16-bit products.
  const bool unpacked = bytes_of(weights) < 1 && format == "bf16";
  const std::string scopes[] = {mixture ? "mixture" : "dense",
                                cluster.system,
                                cluster.device.name,
                                stack.release_scope(),
                                stack.scope(),
                                unpacked ? "unpacked" : "native",
                                architecture + "/" + format,
                                architecture,
                                format,
                                "default"};
  return ConstantTable::applicable(scopes);
}

ServeRates ServeRatesTable::rates_of(std::span<const double> constants) {
  ServeRates rates;
  for (size_t i = 0; i < constants.size(); ++i) rates.*kFields[i].value = constants[i];
  return rates;
}

ServeRates ServeRatesTable::resolve(const std::vector<size_t>& applicable) const {
  ServeRates rates = rates_of(resolved(applicable));
  rates.origin = origin();
  return rates;
}

void use_rates(ServeScenario& scenario, const ServeRatesTable& table) {
  scenario.curves = table.curves();
  for (size_t i = 0; i < scenario.rates.size(); ++i) {
    ServeRates& rates = scenario.rates[i];
    rates = table.resolve(table.applicable(
        scenario.cluster, scenario.stack, static_cast<ServeFormat>(i), !scenario.model.is_dense()));
    const auto& own = scenario.cluster.device.serve_rates;
    for (const Field& field : kFields)
      if (const auto found = own.find(std::string(field.name)); found != own.end())
        rates.*field.value = found->second;
  }
}

}  // namespace tuner
