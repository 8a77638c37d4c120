// SavedTensor: a row of the table of what a layer keeps for its backward pass, and the bytes of
// rows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/workload.h"

namespace tuner {

// The size of a saved tensor, per token of the micro-batch on the rank.
enum class SavedDim : uint8_t {
  hidden,  // hidden
  query,   // heads · head_dim
  kv,      // kv_heads · head_dim (at least one head a rank)
  ffn,     // ffn_hidden
  score,   // heads · seq: the s × s matrix
  head,    // heads: one value a head and token
  token,   // one value a token
};
// How the ranks of the tensor axis share it.
enum class SavedShard : uint8_t { tensor, sequence, none };  // sequence: divided only with SP

struct SavedTensor {
  std::string name;  // "softmax output"
  SavedDim dim = SavedDim::hidden;
  SavedShard shard = SavedShard::none;
  double bytes = 0;      // of one element; 0 = the storage bytes of the precision
  double fp8_bytes = 0;  // of one element under the fp8, mxfp8 and nvfp4 recipes; 0 = the same
  double count = 1;
  bool attention_core = false;  // dropped and recomputed by selective recomputation
  // Features the row needs ("gated", "!gated", "dropout", "flash", "unfused", "layer_norm", …).
  std::vector<std::string> when;
};

// The features a row may ask for, without "!".
const std::vector<std::string>& saved_features();

// The rows that apply to this model and attention kernel.
std::vector<SavedTensor> applicable(const std::vector<SavedTensor>& rows,
                                    const engine::ModelSpec& model,
                                    engine::AttentionKind attention);

// Bytes one rank saves of one layer and one micro-batch: the sum over `rows` (applicable ones),
// each mbs · seq / cp tokens × elements a token × bytes, divided by tp where the row is sharded.
// Scores have heads · seq elements a token: all keys, with context parallelism too. Without
// `with_attention_core` the rows that selective recomputation drops are left out. Takes cp, mbs, tp
// and sp from the plan, seq and precision from the workload. With the table of megatron-2022 it
// equals Korthikanti et al. 2022, equations 1 to 4 and 6.
double saved_bytes(const std::vector<SavedTensor>& rows, const engine::ModelSpec& model,
                   const engine::Workload& workload, const engine::ParallelPlan& plan,
                   bool with_attention_core = true);

}  // namespace tuner
