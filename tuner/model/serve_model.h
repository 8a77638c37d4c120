// ServeModel: time of one iteration of a serving replica, and the memory it takes.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/outcome.h"
#include "tuner/model/serve_plan.h"
#include "tuner/model/serve_scenario.h"

namespace tuner {

// What an iteration spends its time on; the largest is what limits a configuration.
enum class ServePart : uint8_t {
  weights,        // reading weights
  kv,             // reading the KV cache
  compute,        // arithmetic and memory-bound kernels on tokens
  communication,  // all-reduces and messages between stages
  overhead,       // fixed times of layers, steps and sequences
};
constexpr std::array<std::string_view, 5> kServePartNames = {"weights", "kv", "compute",
                                                             "communication", "overhead"};
constexpr std::string_view name_of(ServePart part) {
  return kServePartNames[static_cast<size_t>(part)];
}

struct ServeParts {
  std::array<double, kServePartNames.size()> seconds{};

  double& operator[](ServePart part) { return seconds[static_cast<size_t>(part)]; }
  double operator[](ServePart part) const { return seconds[static_cast<size_t>(part)]; }
  double total() const;
  ServePart largest() const;
  ServeParts& add(const ServeParts& other, double times);
};

// One iteration of a replica: sequences that each generate one token, and whole prompts.
struct Iteration {
  double sequences = 0;
  double context = 0;  // mean tokens in the KV cache of a sequence
  double prompts = 0;
  double prompt_tokens = 0;  // of each prompt
};

// Bytes of the fullest GPU by use.
struct ServeMemory {
  double weight_bytes = 0;
  double kv_bytes = 0;  // of the batch at full length
  double activation_bytes = 0;
  double runtime_bytes = 0;   // context, libraries, buffers
  double headroom_bytes = 0;  // that the stack leaves free
  double capacity_bytes = 0;  // of a GPU

  double peak_bytes() const { return weight_bytes + kv_bytes + activation_bytes + runtime_bytes; }
  // Above 0 when it does not fit.
  double lacking_bytes() const { return peak_bytes() + headroom_bytes - capacity_bytes; }
};

// Of one replica of a plan.
class ServeModel {
 public:
  ServeModel(const ServeScenario& scenario, const ServePlan& plan);

  // Time through all layers; with pp > 1 through all stages one after another.
  ServeParts iteration(const Iteration& work) const;
  double seconds(const Iteration& work) const { return iteration(work).total(); }
  // An iteration of all sequences and of prompts of the workload. With pp > 1 they form as many
  // micro-batches as there are stages, which follow each other through them.
  ServeParts step(double sequences, double context, double prompts) const;

  // KV bytes of one token on the fullest GPU.
  double kv_token_bytes() const { return kv_token_bytes_; }
  // Tokens of KV cache that one replica has room for; 0 when the weights leave none.
  double kv_token_capacity() const;
  // Sequences of the workload's length that run at once: by the stack's limit and the KV cache.
  double most_sequences() const;
  // Tokens of KV cache that a sequence of the workload's full length takes: whole pages.
  double sequence_tokens() const;

  // Weights that a GPU of a stage holds, and the KV cache of `sequences` at their full length; of
  // layers that the stages do not divide the first ones have one more.
  double weight_bytes(int stage) const;
  double kv_bytes(int stage, double sequences) const;

  // Where not, more sequences than the KV cache has room for wait for their turn.
  bool runs_whole_batch() const { return scenario_->runs_whole_batch(); }
  // With `sequences` at the full length of the workload.
  ServeMemory memory(double sequences) const;

  const ServeScenario& scenario() const { return *scenario_; }
  const ServePlan& plan() const { return plan_; }
  const ServeRates& rates() const { return *rates_; }

 private:
  // What products with weights of one format reach.
  struct Products {
    double flops_per_second = 0, bytes_per_second = 0;
  };
  void size_layers();
  void size_cache();
  static void add_product(double times, double flops, double bytes, const Products& rates,
                          ServeParts& parts);
  void add_products(double tokens, ServeParts& parts) const;
  void add_experts(double tokens, ServeParts& parts) const;
  void add_attention(const Iteration& work, ServeParts& parts) const;
  void add_messages(double tokens, ServeParts& parts) const;
  double elementwise_width() const;
  double layers() const { return dense_.count + mixture_.count; }
  double activation_bytes(double sequences) const;
  double layer_bytes(double mixtures, double others) const;
  double weight_bytes() const;  // of the fullest stage
  double runtime_bytes() const;
  double headroom_bytes(double sequences) const;
  ServeMemory memory(double sequences, double kv_tokens) const;

  const ServeScenario* scenario_;
  ServePlan plan_;
  double element_;  // bytes of an activation, and of embedding and head
  const ServeRates* rates_;
  ReduceCurve curve_;
  // Layers of one kind on one GPU: what all tokens pass of them, without the routed experts.
  struct Layers {
    double count = 0;
    double parameters = 0, bytes = 0;  // of one
  };
  Layers dense_, mixture_;
  double expert_parameters_ = 0, expert_bytes_ = 0;  // of one routed expert, whole
  double kv_layer_bytes_ = 0;                        // of one token in one layer
  double score_width_ = 0;   // of a token's query and its sum of values, while decoding
  double prompt_width_ = 0;  // the same within a prompt
  double reread_ = 1;        // how often the KV cache is read, in bytes of memory time
  double head_weights_ = 0;
  double first_bytes_ = 0, last_bytes_ = 0;  // embedding and positions; final norm and head
  std::vector<int> stage_layers_;
  double kv_token_bytes_ = 0;
  // On a CPU the ranks share the cores: above 1 they take turns.
  double turns_ = 1;
  double memory_rate_ = 0;
  double storage_peak_ = 0;                    // of attention and the head
  Products expert_products_, split_products_;  // of routed experts; of what all tokens pass
};

}  // namespace tuner
