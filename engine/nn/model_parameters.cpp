// The parameters of a model's parts, named and sliced for one rank.
#include "engine/nn/model_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/errors.h"

namespace engine {
namespace {

constexpr double kDeviation = 0.02;
constexpr int64_t kFirstLayerOrdinal = 2;  // behind the embedding and the positions

bool named_like_gpt2(const ModelSpec& model) {
  return model.position == PositionKind::learned && !model.gated_mlp;
}

struct PartName {
  std::string name;  // within the layer
  int64_t row = 0;   // of the part within the checkpoint's tensor
  int64_t rows = 0;  // of the checkpoint's tensor
};

PartName gpt2_name(const ModelSpec& model, Part part) {
  const int64_t q = model.q_width(), kv = model.kv_width();
  switch (part) {
    case Part::query:
      return {"attn.c_attn", 0, q + 2 * kv};
    case Part::key:
      return {"attn.c_attn", q, q + 2 * kv};
    case Part::value:
      return {"attn.c_attn", q + kv, q + 2 * kv};
    case Part::attention_out:
      return {"attn.c_proj", 0, model.hidden};
    case Part::up:
      return {"mlp.c_fc", 0, model.ffn_hidden};
    case Part::down:
      return {"mlp.c_proj", 0, model.hidden};
    case Part::attention_norm:
      return {"ln_1", 0, model.hidden};
    case Part::mlp_norm:
      return {"ln_2", 0, model.hidden};
    case Part::gate:
      break;
  }
  fail_expectation("a part that GPT-2 has");
}

PartName llama_name(const ModelSpec& model, Part part) {
  switch (part) {
    case Part::query:
      return {"self_attn.q_proj", 0, model.q_width()};
    case Part::key:
      return {"self_attn.k_proj", 0, model.kv_width()};
    case Part::value:
      return {"self_attn.v_proj", 0, model.kv_width()};
    case Part::attention_out:
      return {"self_attn.o_proj", 0, model.hidden};
    case Part::gate:
      return {"mlp.gate_proj", 0, model.ffn_hidden};
    case Part::up:
      return {"mlp.up_proj", 0, model.ffn_hidden};
    case Part::down:
      return {"mlp.down_proj", 0, model.hidden};
    case Part::attention_norm:
      return {"input_layernorm", 0, model.hidden};
    case Part::mlp_norm:
      return {"post_attention_layernorm", 0, model.hidden};
  }
  fail_expectation("a part of a layer");
}

PartName part_name(const ModelSpec& model, int64_t layer, Part part, const char* ending) {
  const bool gpt2 = named_like_gpt2(model);
  PartName name = gpt2 ? gpt2_name(model, part) : llama_name(model, part);
  name.name =
      fmt::format("{}.{}.{}.{}", gpt2 ? "transformer.h" : "model.layers", layer, name.name, ending);
  return name;
}

int64_t ordinal_of(int64_t layer, Part part, bool is_bias) {
  return kFirstLayerOrdinal + (layer * kParts + static_cast<int64_t>(part)) * 2 + (is_bias ? 1 : 0);
}
int64_t first_end_ordinal(const ModelSpec& model) {
  return kFirstLayerOrdinal + model.layers * kParts * 2;
}

bool is_norm(Part part) { return part == Part::attention_norm || part == Part::mlp_norm; }
bool is_row_parallel(Part part) { return part == Part::attention_out || part == Part::down; }

bool has_bias(const ModelSpec& model, Part part) {
  switch (part) {
    case Part::query:
    case Part::key:
    case Part::value:
      return model.qkv_bias;
    case Part::attention_out:
      return model.attention_out_bias;
    case Part::gate:
    case Part::up:
    case Part::down:
      return model.mlp_bias;
    default:
      return model.norm == NormKind::layer_norm;
  }
}

// The rows of a column-parallel part (also of its bias) that this rank holds.
struct RankRows {
  int64_t first = 0, count = 0;
  Sharing sharing = Sharing::split;
  bool owned = true;
};
RankRows rank_rows(const LayerContext& context, Part part) {
  const ModelSpec& model = context.model();
  const RankHeads heads = rank_heads(model, context.tp(), context.tp_rank());
  if (part == Part::query)
    return {heads.first * model.head_dim, heads.count * model.head_dim, Sharing::split, true};
  if (part == Part::key || part == Part::value)
    return {heads.kv_first * model.head_dim, heads.kv_count * model.head_dim,
            heads.kv_ranks > 1 ? Sharing::kv_group : Sharing::split,
            context.tp_rank() % heads.kv_ranks == 0};
  const int64_t rows = model.ffn_hidden / context.tp();
  return {context.tp_rank() * rows, rows, Sharing::split, true};
}

}  // namespace

RankHeads rank_heads(const ModelSpec& model, int tp, int tp_rank) {
  expect(model.heads % tp == 0, "tp to divide the heads");
  expect(model.kv_heads % tp == 0 || tp % model.kv_heads == 0, "tp to divide kv_heads or back");
  RankHeads heads;
  heads.count = model.heads / tp;
  heads.first = tp_rank * heads.count;
  heads.kv_count = std::max<int64_t>(1, model.kv_heads / tp);
  heads.kv_ranks = std::max<int64_t>(1, tp / model.kv_heads);
  heads.kv_first = tp_rank / heads.kv_ranks * heads.kv_count;
  return heads;
}

int64_t ordinal_count(const ModelSpec& model) { return first_end_ordinal(model) + 3; }

const Parameter* ModelParameters::weight(int64_t layer, Part part) {
  const PartName name = part_name(model_, layer, part, "weight");
  const int64_t ordinal = ordinal_of(layer, part, false);
  if (is_norm(part)) return add(norm_vector(name.name, ordinal, false));
  Parameter p;
  p.name = name.name;
  p.ordinal = ordinal;
  p.transposed = named_like_gpt2(model_);
  p.deviation = kDeviation;
  if (is_row_parallel(part)) {
    const int64_t in = part == Part::down ? model_.ffn_hidden : model_.q_width();
    p.rows = model_.hidden;
    p.columns = in / context_.tp();
    p.first_column = p.global_column = context_.tp_rank() * p.columns;
    p.checkpoint_shape = {model_.hidden, in};
    p.deviation /= std::sqrt(2.0 * static_cast<double>(model_.layers));
  } else {
    const RankRows rows = rank_rows(context_, part);
    p.rows = rows.count;
    p.columns = model_.hidden;
    p.sharing = rows.sharing;
    p.owned = rows.owned;
    p.global_row = rows.first;
    p.first_row = name.row + rows.first;
    p.checkpoint_shape = {name.rows, model_.hidden};
  }
  if (p.transposed) std::swap(p.checkpoint_shape[0], p.checkpoint_shape[1]);
  return add(std::move(p));
}

const Parameter* ModelParameters::bias(int64_t layer, Part part) {
  if (!has_bias(model_, part)) return nullptr;
  const PartName name = part_name(model_, layer, part, "bias");
  const int64_t ordinal = ordinal_of(layer, part, true);
  if (is_norm(part) || is_row_parallel(part)) return add(norm_vector(name.name, ordinal, true));
  const RankRows rows = rank_rows(context_, part);
  Parameter p;
  p.name = name.name;
  p.ordinal = ordinal;
  p.checkpoint_shape = {name.rows};
  p.first_column = name.row + rows.first;
  p.global_column = rows.first;
  p.rows = 1;
  p.columns = rows.count;
  p.sharing = rows.sharing;
  p.owned = rows.owned;
  p.decays = false;
  p.initial = Initial::zeros;
  return add(std::move(p));
}

const Parameter* ModelParameters::embedding(bool tied_copy) {
  Parameter p = vocabulary_slice(
      named_like_gpt2(model_) ? "transformer.wte.weight" : "model.embed_tokens.weight", 0);
  p.tied_copy = tied_copy;
  p.owned = !tied_copy;
  return add(std::move(p));
}

const Parameter* ModelParameters::positions() {
  Parameter p;
  p.name = named_like_gpt2(model_) ? "transformer.wpe.weight" : "model.embed_positions.weight";
  p.ordinal = 1;
  p.rows = model_.positions + model_.extra_position_rows;
  p.columns = model_.hidden;
  p.checkpoint_shape = {p.rows, p.columns};
  p.sharing = Sharing::replicated;
  p.owned = context_.tp_rank() == 0;
  p.deviation = kDeviation;
  return add(std::move(p));
}

const Parameter* ModelParameters::final_norm_gain() {
  return add(norm_vector(named_like_gpt2(model_) ? "transformer.ln_f.weight" : "model.norm.weight",
                         first_end_ordinal(model_), false));
}

const Parameter* ModelParameters::final_norm_bias() {
  if (model_.norm != NormKind::layer_norm) return nullptr;
  return add(norm_vector(named_like_gpt2(model_) ? "transformer.ln_f.bias" : "model.norm.bias",
                         first_end_ordinal(model_) + 1, true));
}

const Parameter* ModelParameters::head() {
  return add(vocabulary_slice("lm_head.weight", first_end_ordinal(model_) + 2));
}

Parameter ModelParameters::vocabulary_slice(const std::string& name, int64_t ordinal) const {
  Parameter p;
  p.name = name;
  p.ordinal = ordinal;
  p.rows = padded_vocab(model_.vocab, kVocabMultiple, context_.tp()) / context_.tp();
  p.columns = model_.hidden;
  p.first_row = p.global_row = context_.tp_rank() * p.rows;
  p.checkpoint_shape = {model_.vocab, model_.hidden};
  p.deviation = kDeviation;
  return p;
}

Parameter ModelParameters::norm_vector(const std::string& name, int64_t ordinal,
                                       bool is_bias) const {
  Parameter p;
  p.name = name;
  p.ordinal = ordinal;
  p.rows = 1;
  p.columns = model_.hidden;
  p.checkpoint_shape = {model_.hidden};
  p.sharing = context_.tp() > 1 ? Sharing::replicated : Sharing::split;
  p.owned = context_.tp_rank() == 0;
  p.decays = false;
  p.initial = is_bias ? Initial::zeros : Initial::ones;
  return p;
}

const Parameter* ModelParameters::add(Parameter parameter) {
  return &set_.add(std::move(parameter));
}

void initialise(LayerContext& context, const Parameter& p) {
  kernels::Kernels& kernels = context.kernels();
  if (p.initial != Initial::normal)
    return kernels.fill(p.weight, p.initial == Initial::ones ? 1 : 0);
  const kernels::Stream stream =
      kernels::make_stream(context.options().seed, kernels::Purpose::initial_weights, 0,
                           static_cast<uint64_t>(p.ordinal));
  kernels.fill_normal(p.weight, p.deviation, stream, {p.global_row, 0, 0}, p.global_column);
  const int64_t padding = padding_rows(p);
  if (padding > 0) kernels.fill(p.weight.row_range(p.rows - padding, padding), 0);
}

}  // namespace engine
