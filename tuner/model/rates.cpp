// The constants of the cost model by scope.
#include "tuner/model/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::Json;

struct Field {
  std::string_view name;
  double Rates::*value;
  double least = 0;
  double most = 1e6;
};
constexpr double kDivisor = 1e-6;  // the least of what the model divides by

constexpr Field kFields[] = {
    {"gemm_efficiency", &Rates::gemm_efficiency, kDivisor},
    {"gemm_k_offset", &Rates::gemm_k_offset},
    {"gemm_wave_share", &Rates::gemm_wave_share},
    {"gemm_start_seconds", &Rates::gemm_start_seconds},
    {"gemm_bandwidth_share", &Rates::gemm_bandwidth_share, kDivisor},
    {"gemm_training_factor", &Rates::gemm_training_factor},
    {"gemm_stack_factor", &Rates::gemm_stack_factor},
    {"gemm_precision_factor", &Rates::gemm_precision_factor},
    {"quantize_passes", &Rates::quantize_passes},
    {"software_gain_per_year", &Rates::software_gain_per_year},
    {"score_efficiency", &Rates::score_efficiency, kDivisor},
    {"score_bytes", &Rates::score_bytes},
    {"misaligned_factor", &Rates::misaligned_factor},
    {"flash_efficiency", &Rates::flash_efficiency, kDivisor},
    {"flash_stack_factor", &Rates::flash_stack_factor, kDivisor},
    {"flash_backward_factor", &Rates::flash_backward_factor},
    {"elementwise_sequence_factor", &Rates::elementwise_sequence_factor},
    {"elementwise_tensor_factor", &Rates::elementwise_tensor_factor},
    {"elementwise_backward_factor", &Rates::elementwise_backward_factor},
    {"tensor_bus_factor", &Rates::tensor_bus_factor, kDivisor},
    {"tensor_start_seconds", &Rates::tensor_start_seconds},
    {"tensor_start_sharded_factor", &Rates::tensor_start_sharded_factor},
    {"tensor_backward_hidden", &Rates::tensor_backward_hidden},
    {"tensor_sharded_hidden", &Rates::tensor_sharded_hidden},
    {"tensor_network_efficiency", &Rates::tensor_network_efficiency, kDivisor},
    {"launch_seconds", &Rates::launch_seconds},
    {"launch_tensor_growth", &Rates::launch_tensor_growth},
    {"launch_backward_factor", &Rates::launch_backward_factor},
    {"micro_batch_seconds", &Rates::micro_batch_seconds},
    {"step_seconds", &Rates::step_seconds},
    {"embedding_bytes", &Rates::embedding_bytes},
    {"loss_passes", &Rates::loss_passes},
    {"unpadded_vocab_factor", &Rates::unpadded_vocab_factor},
    {"pipeline_message_seconds", &Rates::pipeline_message_seconds},
    {"pipeline_network_factor", &Rates::pipeline_network_factor, kDivisor},
    {"data_network_efficiency", &Rates::data_network_efficiency, kDivisor},
    {"gradient_hidden", &Rates::gradient_hidden},
    {"shard_hidden", &Rates::shard_hidden},
    {"shard_start_seconds", &Rates::shard_start_seconds},
    {"context_hidden", &Rates::context_hidden},
    {"optimizer_bytes", &Rates::optimizer_bytes},
    {"optimizer_replicated_bytes", &Rates::optimizer_replicated_bytes},
    {"straggler_growth", &Rates::straggler_growth},
    {"residual_sigma", &Rates::residual_sigma},
    {"residual_correlation", &Rates::residual_correlation, 0, 0.999},
};

// The scopes of a value, the most specific first. fp16 and bf16 share their numbers.
std::vector<std::string> scopes(const ClusterSpec& cluster, const Stack& stack,
                                engine::Precision precision) {
  const std::string format(precision == engine::Precision::fp16 ? "bf16" : name_of(precision));
  const std::string& architecture = cluster.device.architecture;
  return {cluster.system, cluster.device.name,
          stack.rates,    architecture + "/" + format,
          architecture,   format,
          "default"};
}

}  // namespace

const std::vector<std::string>& RatesTable::constant_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Field& field : kFields) list.emplace_back(field.name);
    return list;
  }();
  return names;
}

RatesTable RatesTable::load() {
  const DataFile file = find_data_file("profiles", "rates", "rates file");
  return from_json(engine::parse_json(file.text, file.origin), file.origin);
}

RatesTable RatesTable::from_json(const Json& json, const std::string& origin) {
  engine::Problems problems(origin);
  engine::ObjectReader document(json, "", problems);
  if (document.text("schema") != "autotune.rates/1")
    document.problem("schema", "must be \"autotune.rates/1\"");
  engine::ObjectReader constants = document.object("constants");
  RatesTable table;
  table.origin_ = origin;
  table.text_ = json.dump();
  for (size_t i = 0; i < std::size(kFields); ++i) {
    engine::ObjectReader constant = constants.object(std::string(kFields[i].name));
    table.sigmas_.push_back(constant.number("sigma", {0, 10}, 0.0));
    table.shares_.push_back(constant.text("unit", "").starts_with("share of"));
    const engine::NumberRange range{kFields[i].least, table.shares_.back() ? 1 : kFields[i].most};
    engine::ObjectReader values = constant.object("values");
    engine::ObjectReader fitted = constant.object("fitted");
    if (!values.has("default")) values.problem("default", "is missing");
    for (const std::string& scope : values.keys()) {
      const double prior = values.number(scope, range);
      table.entries_.push_back(
          {static_cast<int>(i), scope, prior, fitted.number(scope, range, prior)});
    }
  }
  problems.throw_if_any();
  return table;
}

RatesTable RatesTable::with_priors() const {
  RatesTable table = *this;
  for (ScopedRate& entry : table.entries_) entry.value = entry.prior;
  return table;
}

Json RatesTable::to_json(const Json& fit) const {
  Json json = Json::parse(text_);
  for (size_t i = 0; i < std::size(kFields); ++i)
    json["constants"][std::string(kFields[i].name)].erase("fitted");
  for (const ScopedRate& entry : entries_)
    if (entry.value != entry.prior)
      json["constants"][constant_names()[static_cast<size_t>(entry.constant)]]["fitted"]
          [entry.scope] = entry.value;
  json["fit"] = fit;
  return json;
}

std::vector<size_t> RatesTable::applicable(const ClusterSpec& cluster, const Stack& stack,
                                           engine::Precision precision) const {
  const std::vector<std::string> order = scopes(cluster, stack, precision);
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<size_t> chosen(std::size(kFields), kNone);
  std::vector<size_t> place(std::size(kFields), order.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto constant = static_cast<size_t>(entries_[i].constant);
    const auto found = std::find(order.begin(), order.end(), entries_[i].scope);
    const auto at = static_cast<size_t>(found - order.begin());
    if (at >= place[constant]) continue;
    place[constant] = at;
    chosen[constant] = i;
  }
  for (const size_t entry : chosen) engine::expect(entry != kNone, "a default of every constant");
  return chosen;
}

Rates RatesTable::resolve(const std::vector<size_t>& applicable) const {
  Rates rates;
  rates.origin = origin_;
  for (size_t i = 0; i < applicable.size(); ++i)
    rates.*kFields[i].value = entries_[applicable[i]].value;
  return rates;
}

Rates RatesTable::resolve(const ClusterSpec& cluster, const Stack& stack,
                          engine::Precision precision) const {
  Rates rates = resolve(applicable(cluster, stack, precision));
  for (const Field& field : kFields)
    if (const auto own = cluster.device.rates.find(std::string(field.name));
        own != cluster.device.rates.end())
      rates.*field.value = own->second;
  return rates;
}

}  // namespace tuner
