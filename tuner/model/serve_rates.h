// ServeRates: the constants of the serving model, resolved for one device, link, stack and format.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "tuner/model/cluster_spec.h"
#include "tuner/model/constant_table.h"
#include "tuner/model/serve_stack.h"

namespace tuner {

// Meaning, unit and origin of each stand in profiles/serve_rates.json under the same name.
struct ServeRates {
  // Matrix products.
  double gemm_efficiency = 0;
  double gemm_bandwidth_share = 0;
  // Attention.
  double kv_bandwidth_share = 0;
  double cache_bytes_per_second = 0;
  double cache_reread_factor = 0;
  double prefill_efficiency = 0;
  double prefill_half_tokens = 0;
  double elementwise_passes = 0;
  // Routed experts.
  double expert_factor = 0;
  double expert_half_width = 0;
  double expert_evenness = 0;
  double expert_layer_seconds = 0;
  // Fixed times.
  double layer_seconds = 0;
  double prefill_layer_seconds = 0;
  double step_seconds = 0;
  double sequence_seconds = 0;
  double server_seconds = 0;
  double server_client_seconds = 0;
  double max_load_loss = 0;
  // All-reduce of small messages, one shot against ring, and what follows each.
  double reduce_factor = 0;
  double reduce_extra_seconds = 0;
  // Uncertainty: standard deviation of log(measured / predicted) on rows the fit has not seen.
  double latency_sigma = 0;
  double ttft_sigma = 0;
  double tpot_sigma = 0;
  double throughput_sigma = 0;
  double loaded_latency_sigma = 0;  // closed loop and Poisson
  double loaded_ttft_sigma = 0;

  std::string origin;  // the file they come from
};

// All-reduce of one message over ranks of one link: the smaller of a one-shot and a ring algorithm,
// each a start plus bytes over bandwidth.
struct ReduceCurve {
  double one_shot_seconds = 0, one_shot_bytes_per_second = 1;
  double ring_seconds = 0, ring_bytes_per_second = 1;

  // `bytes` is the whole message; ranks >= 2.
  double seconds(int ranks, double bytes) const;
};

// Curves by link and ranks; ranks between those measured take the next larger one.
class ReduceCurves {
 public:
  static ReduceCurves from_json(const nlohmann::json& list, const std::string& origin);
  // A link whose name begins with none of the known ones is built from its bus bandwidth. Ranks
  // beyond the domain of fast links go through the network.
  ReduceCurve curve(const Interconnect& interconnect, const DeviceSpec& device, int ranks) const;

 private:
  struct Entry {
    std::string link;
    int ranks = 0;
    ReduceCurve curve;
  };
  const Entry* find(const std::string& link, int ranks) const;
  std::vector<Entry> entries_;
};

class ServeRatesTable : public ConstantTable {
 public:
  // profiles/serve_rates.json: the user's, else the built-in one. Throws InputError.
  static ServeRatesTable load();
  static ServeRatesTable from_json(const nlohmann::json& json, const std::string& origin);

  static const std::vector<std::string>& constant_names();
  // Whether a constant, by its place among the names, is one of routed experts alone.
  static bool is_of_experts(int constant);

  std::vector<size_t> applicable(const ClusterSpec& cluster, const ServeStack& stack,
                                 ServeFormat weights, bool mixture) const;
  ServeRates resolve(const std::vector<size_t>& applicable) const;
  // `constants` in the order of the names.
  static ServeRates rates_of(std::span<const double> constants);
  const ReduceCurves& curves() const { return curves_; }

 private:
  ServeRatesTable(const nlohmann::json& json, const std::string& origin);
  ReduceCurves curves_;
};

}  // namespace tuner
