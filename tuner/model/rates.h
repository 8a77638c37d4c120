// Rates: the constants of the cost model. A table holds them by scope, with the prior each was
// given and what a fit made of it; resolved for one device, system and stack they are plain
// numbers.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/precision.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/model/constant_table.h"
#include "tuner/model/seen.h"
#include "tuner/model/stack.h"

namespace tuner {

// Every constant of the training cost model. Meaning, unit and origin of each stand in
// profiles/rates.json under the same name.
struct Rates {
  // Matrix products.
  double gemm_efficiency = 0;
  double gemm_k_offset = 0;
  double gemm_wave_share = 0;
  double gemm_start_seconds = 0;
  double gemm_bandwidth_share = 0;
  double gemm_training_factor = 0;
  double gemm_stack_factor = 0;
  double gemm_precision_factor = 0;
  double quantize_passes = 0;
  double software_launch_year = 0;
  double software_immaturity = 0;
  double software_maturing_years = 0;
  // Attention.
  double score_efficiency = 0;
  double score_bytes = 0;
  double misaligned_factor = 0;
  double flash_efficiency = 0;
  double flash_stack_factor = 0;
  double flash_backward_factor = 0;
  double flash_immaturity = 0;
  // Memory-bound kernels.
  double elementwise_sequence_factor = 0;
  double elementwise_tensor_factor = 0;
  double elementwise_backward_factor = 0;
  // Tensor axis.
  double tensor_bus_factor = 0;
  double tensor_start_seconds = 0;
  double tensor_start_sharded_factor = 0;
  double tensor_backward_hidden = 0;
  double tensor_sharded_hidden = 0;
  double tensor_network_efficiency = 0;
  double tensor_network_start_seconds = 0;
  // Host.
  double launch_seconds = 0;
  double launch_tensor_growth = 0;
  double launch_backward_factor = 0;
  double micro_batch_seconds = 0;
  double step_seconds = 0;
  // Embedding and head.
  double embedding_bytes = 0;
  double loss_passes = 0;
  double unpadded_vocab_factor = 0;
  // Pipeline, data and context axes.
  double pipeline_message_seconds = 0;
  double pipeline_network_factor = 0;
  double data_network_efficiency = 0;
  double gradient_hidden = 0;
  double shard_hidden = 0;
  double shard_start_seconds = 0;
  double context_hidden = 0;
  double optimizer_bytes = 0;
  double optimizer_replicated_bytes = 0;
  double straggler_growth = 0;
  // Uncertainty: standard deviation of log(measured / predicted) on rows the fit has not seen.
  double residual_sigma = 0;
  double distance_sigma = 0;        // the same for every doubling beyond what the fit has seen
  double residual_correlation = 0;  // of two plans of one model on one machine

  Seen seen;           // of the stack; empty = nothing, or not known
  std::string origin;  // the file they come from
};

class RatesTable : public ConstantTable {
 public:
  // profiles/rates.json: the user's, else the built-in one. Throws InputError when a constant is
  // missing or bad.
  static RatesTable load();
  static RatesTable from_json(const nlohmann::json& json, const std::string& origin);

  static const std::vector<std::string>& constant_names();

  // For every constant the entry that applies: the most specific scope.
  std::vector<size_t> applicable(const ClusterSpec& cluster, const Stack& stack,
                                 engine::Precision precision) const;
  Rates resolve(const std::vector<size_t>& applicable) const;
  // `constants` in the order of the names.
  static Rates rates_of(std::span<const double> constants);
  // With what was measured on the device itself in front. Arithmetic that the stack's runs do not
  // have is as uncertain as a stack that is unknown.
  Rates resolve(const ClusterSpec& cluster, const Stack& stack, engine::Precision precision) const;

  // By the stacks' names in this table.
  using SeenByStack = std::map<std::string, Seen>;
  void set_seen(SeenByStack seen) { seen_ = std::move(seen); }

 private:
  using ConstantTable::ConstantTable;
  SeenByStack seen_;
};

}  // namespace tuner
