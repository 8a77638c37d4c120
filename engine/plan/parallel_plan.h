// ParallelPlan: how a training step is divided over ranks and what it recomputes and shards.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

// Which activations are recomputed in the backward pass. `full` keeps only the input of a layer;
// with layers > 0 ("full:N") only the first N layers of every stage chunk do so and the others keep
// everything. `selective` recomputes the attention core (Korthikanti et al. 2022, section 5).
struct Recompute {
  enum class Mode : uint8_t { none, selective, full };
  Mode mode = Mode::none;
  int layers = 0;  // full only; 0 = all

  bool operator==(const Recompute&) const = default;
};

std::string to_string(const Recompute& recompute);  // "none", "selective", "full", "full:3"
Recompute parse_recompute(std::string_view text);   // throws InputError

struct ParallelPlan {
  int dp = 1;       // data-parallel replicas
  int tp = 1;       // tensor
  int pp = 1;       // pipeline stages
  int vpp = 1;      // model chunks a pipeline rank (1 = not interleaved)
  int cp = 1;       // context: the sequence of one sample is split over cp ranks
  int ep = 1;       // expert
  bool sp = false;  // Megatron sequence parallelism
  int zero = 0;     // 0 nothing sharded over dp · cp, 1 optimizer, 2 + gradients, 3 + parameters
  int64_t mbs = 1;  // micro-batch, sequences
  int64_t gbs = 1;  // global batch, sequences
  Recompute recompute = {};
  // Layers on each pipeline rank; empty = the same on all.
  std::vector<int> layers_per_stage = {};

  int world() const { return dp * tp * pp * cp; }
  int64_t micro_batches() const { return gbs / (mbs * dp); }

  bool operator==(const ParallelPlan&) const = default;
};

// "TP 8  PP 16  VPP 6  DP 8  SP  MBS 1  recompute selective  ZeRO 1", axes of size 1 left out.
std::string describe(const ParallelPlan& plan);

// The JSON of the contract: layers_per_stage is always written, in full.
nlohmann::json plan_to_json(const ParallelPlan& plan, int64_t model_layers);
// Throws InputError with every problem, naming `source`.
ParallelPlan plan_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
