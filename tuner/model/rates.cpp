// The constants of the cost model by scope.
#include "tuner/model/rates.h"

#include <fmt/format.h>

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
    {"software_launch_year", &Rates::software_launch_year},
    {"software_immaturity", &Rates::software_immaturity},
    {"software_maturing_years", &Rates::software_maturing_years, kDivisor},
    {"score_efficiency", &Rates::score_efficiency, kDivisor},
    {"score_bytes", &Rates::score_bytes},
    {"misaligned_factor", &Rates::misaligned_factor},
    {"flash_efficiency", &Rates::flash_efficiency, kDivisor},
    {"flash_stack_factor", &Rates::flash_stack_factor, kDivisor},
    {"flash_backward_factor", &Rates::flash_backward_factor},
    {"flash_immaturity", &Rates::flash_immaturity},
    {"elementwise_sequence_factor", &Rates::elementwise_sequence_factor},
    {"elementwise_tensor_factor", &Rates::elementwise_tensor_factor},
    {"elementwise_backward_factor", &Rates::elementwise_backward_factor},
    {"tensor_bus_factor", &Rates::tensor_bus_factor, kDivisor},
    {"tensor_start_seconds", &Rates::tensor_start_seconds},
    {"tensor_start_sharded_factor", &Rates::tensor_start_sharded_factor},
    {"tensor_backward_hidden", &Rates::tensor_backward_hidden},
    {"tensor_sharded_hidden", &Rates::tensor_sharded_hidden},
    {"tensor_network_efficiency", &Rates::tensor_network_efficiency, kDivisor},
    {"tensor_network_start_seconds", &Rates::tensor_network_start_seconds},
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
    {"distance_sigma", &Rates::distance_sigma},
    {"residual_correlation", &Rates::residual_correlation, 0, 0.999},
};

// The scopes of a value, the most specific first. fp16 and bf16 share their numbers.
std::vector<std::string> scopes(const ClusterSpec& cluster, const Stack& stack,
                                engine::Precision precision) {
  const std::string& architecture = cluster.device.architecture;
  const std::string scope = format_scope(cluster, precision);
  const std::string format = scope.substr(architecture.size());  // with the slash
  return {cluster.system,
          cluster.device.name + format,
          cluster.device.name,
          stack.rates,
          scope,
          architecture,
          format.substr(1),
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
  static const std::vector<ConstantName> names = [] {
    std::vector<ConstantName> list;
    for (const Field& field : kFields) list.push_back({field.name, field.least, field.most});
    return list;
  }();
  RatesTable table{json, origin, "autotune.rates/1", names};
  const Json fit = json.value("fit", Json::object());
  if (fit.contains("seen"))
    for (const auto& [stack, seen] : fit["seen"].items())
      table.seen_[stack] = seen_from_json(seen, origin);
  return table;
}

std::vector<size_t> RatesTable::applicable(const ClusterSpec& cluster, const Stack& stack,
                                           engine::Precision precision) const {
  return ConstantTable::applicable(scopes(cluster, stack, precision));
}

Rates RatesTable::rates_of(std::span<const double> constants) {
  Rates rates;
  for (size_t i = 0; i < constants.size(); ++i) rates.*kFields[i].value = constants[i];
  return rates;
}

Rates RatesTable::resolve(const std::vector<size_t>& applicable) const {
  Rates rates = rates_of(resolved(applicable));
  rates.origin = origin();
  return rates;
}

Rates RatesTable::resolve(const ClusterSpec& cluster, const Stack& stack,
                          engine::Precision precision) const {
  Rates rates = resolve(applicable(cluster, stack, precision));
  if (const auto found = seen_.find(stack.rates); found != seen_.end()) {
    rates.seen = found->second;
    static const std::string kUnknown[] = {"default"};
    if (!rates.seen.formats.contains(format_scope(cluster, precision)))
      rates.residual_sigma = resolve(ConstantTable::applicable(kUnknown)).residual_sigma;
  }
  for (const Field& field : kFields)
    if (const auto own = cluster.device.rates.find(std::string(field.name));
        own != cluster.device.rates.end())
      rates.*field.value = own->second;
  return rates;
}

}  // namespace tuner
