// Which rows of a stack's table apply to a model, and the bytes they stand for.
#include "tuner/model/saved_tensor.h"

#include <algorithm>
#include <functional>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using engine::AttentionKind;
using engine::ModelSpec;
using engine::NormKind;

struct Feature {
  std::string name;
  std::function<bool(const ModelSpec&, AttentionKind)> holds;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> kFeatures = {
      {"gated", [](const ModelSpec& model, AttentionKind) { return model.gated_mlp; }},
      {"dropout", [](const ModelSpec& model, AttentionKind) { return model.dropout; }},
      {"unfused",
       [](const ModelSpec&, AttentionKind kind) { return kind == AttentionKind::unfused; }},
      {"flash", [](const ModelSpec&, AttentionKind kind) { return kind == AttentionKind::flash; }},
      {"layer_norm",
       [](const ModelSpec& model, AttentionKind) { return model.norm == NormKind::layer_norm; }},
      {"rms_norm",
       [](const ModelSpec& model, AttentionKind) { return model.norm == NormKind::rms_norm; }},
      {"qk_norm", [](const ModelSpec& model, AttentionKind) { return model.qk_norm; }},
      {"rotary", [](const ModelSpec& model,
                    AttentionKind) { return model.position == engine::PositionKind::rotary; }},
      {"second_norm",
       [](const ModelSpec& model, AttentionKind) { return model.norms_per_layer > 1; }},
      {"sandwich_norms",
       [](const ModelSpec& model, AttentionKind) { return model.norms_per_layer > 3; }},
      {"parallel_block",
       [](const ModelSpec& model, AttentionKind) { return model.parallel_block; }},
  };
  return kFeatures;
}

bool holds(const std::string& condition, const ModelSpec& model, AttentionKind attention) {
  const bool negated = condition.starts_with('!');
  const std::string name = condition.substr(negated ? 1 : 0);
  const auto feature = std::ranges::find(features(), name, &Feature::name);
  engine::expect(feature != features().end(), "a known feature in a row of saved tensors");
  return feature->holds(model, attention) != negated;
}

int64_t elements_per_token(SavedDim dim, const ModelSpec& model, int64_t seq, int64_t tp) {
  switch (dim) {
    case SavedDim::hidden:
      return model.hidden;
    case SavedDim::query:
      return model.q_width();
    case SavedDim::kv:
      return std::max(model.kv_heads, tp) * model.head_dim;
    case SavedDim::ffn:
      return model.ffn_hidden;
    case SavedDim::score:
      return model.heads * seq;
    case SavedDim::head:
      return model.heads;
    case SavedDim::token:
      return 1;
  }
  engine::expect(false, "a known dim of a saved tensor");
  return 0;
}

double bytes_per_element(const SavedTensor& row, engine::Precision precision) {
  const bool quantised = precision >= engine::Precision::fp8;
  if (quantised && row.fp8_bytes > 0) return row.fp8_bytes;
  return row.bytes > 0 ? row.bytes : engine::storage_bytes(precision);
}

}  // namespace

const std::vector<std::string>& saved_features() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Feature& feature : features()) names.push_back(feature.name);
    return names;
  }();
  return kNames;
}

std::vector<SavedTensor> applicable(const std::vector<SavedTensor>& rows, const ModelSpec& model,
                                    AttentionKind attention) {
  std::vector<SavedTensor> kept;
  for (const SavedTensor& row : rows)
    if (std::ranges::all_of(row.when,
                            [&](const auto& name) { return holds(name, model, attention); }))
      kept.push_back(row);
  return kept;
}

double saved_bytes(const std::vector<SavedTensor>& rows, const ModelSpec& model,
                   const engine::Workload& workload, const engine::ParallelPlan& plan,
                   bool with_attention_core) {
  const double tokens = static_cast<double>(plan.mbs) * static_cast<double>(workload.seq) / plan.cp;
  double bytes = 0;
  for (const SavedTensor& row : rows) {
    if (row.attention_core && !with_attention_core) continue;
    const bool sharded =
        row.shard == SavedShard::tensor || (row.shard == SavedShard::sequence && plan.sp);
    const double elements =
        static_cast<double>(elements_per_token(row.dim, model, workload.seq, plan.tp));
    bytes += tokens * elements * bytes_per_element(row, workload.precision) * row.count /
             (sharded ? plan.tp : 1);
  }
  return bytes;
}

}  // namespace tuner
