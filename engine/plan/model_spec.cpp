// What a model holds and computes: parameters, shares of a tensor rank, FLOPs, and a sound shape.
#include "engine/plan/model_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/base/units.h"

namespace engine {
namespace {

int64_t norm_size(const ModelSpec& model) {
  return model.norm == NormKind::layer_norm ? 2 * model.hidden : model.hidden;
}
int64_t embedding_width(const ModelSpec& model) {
  return model.embedding_width > 0 ? model.embedding_width : model.hidden;
}
// Matrices between the embedding's width and the hidden size, one on either end of the layers.
int64_t embedding_projections(const ModelSpec& model) {
  return model.embedding_width > 0 ? 2 * model.embedding_width * model.hidden : 0;
}
int64_t mlp_matrices(const ModelSpec& model) { return model.gated_mlp ? 3 : 2; }
int64_t latent_qk_dim(const ModelSpec& model) { return model.mla.nope_dim + model.mla.rope_dim; }

// Weights of the matrix products of one layer's attention.
int64_t attention_matrices(const ModelSpec& model) {
  if (!model.has_latent_attention()) return 2 * model.hidden * (model.q_width() + model.kv_width());
  const LatentAttentionSpec& mla = model.mla;
  const int64_t query_out = model.heads * latent_qk_dim(model);
  const int64_t query =
      mla.q_rank > 0 ? mla.q_rank * (model.hidden + query_out) : model.hidden * query_out;
  return query + model.hidden * (mla.kv_rank + mla.rope_dim) +
         mla.kv_rank * model.heads * (mla.nope_dim + mla.value_dim) +
         model.heads * mla.value_dim * model.hidden;
}

// Biases, norms and sinks inside one layer's attention.
int64_t attention_vectors(const ModelSpec& model) {
  int64_t count = model.attention_out_bias ? model.hidden : 0;
  if (model.attention_sinks) count += model.heads;
  if (model.qk_norm) count += 2 * model.head_dim;
  if (model.has_latent_attention()) {
    const LatentAttentionSpec& mla = model.mla;
    count += mla.q_rank + mla.kv_rank;  // their norms
    if (model.qkv_bias) count += mla.q_rank + mla.kv_rank + mla.rope_dim;
  } else if (model.qkv_bias) {
    count += model.q_width() + 2 * model.kv_width();
  }
  return count;
}

// Of one layer's attention on a rank: what is split over tp, and what every rank holds whole.
struct AttentionShare {
  int64_t split = 0, whole = 0;
};

AttentionShare attention_share(const ModelSpec& model, int64_t tp) {
  const LatentAttentionSpec& mla = model.mla;
  AttentionShare share;
  if (model.has_latent_attention()) {
    const int64_t heads = model.heads / tp;
    const int64_t query_in = mla.q_rank > 0 ? mla.q_rank : model.hidden;
    share.split =
        heads * (query_in * latent_qk_dim(model) + mla.kv_rank * (mla.nope_dim + mla.value_dim) +
                 mla.value_dim * model.hidden);
    share.whole = model.hidden * (mla.q_rank + mla.kv_rank + mla.rope_dim);
    share.whole += mla.q_rank + mla.kv_rank;  // norms
    if (model.qkv_bias) share.whole += mla.q_rank + mla.kv_rank + mla.rope_dim;
  } else {
    const int64_t query = model.q_width() / tp;
    const int64_t qkv = query + 2 * std::max<int64_t>(1, model.kv_heads / tp) * model.head_dim;
    share.split = model.hidden * (qkv + query) + (model.qkv_bias ? qkv : 0);
  }
  if (model.attention_sinks) share.split += model.heads / tp;
  if (model.attention_out_bias) share.whole += model.hidden;
  if (model.qk_norm) share.whole += 2 * model.head_dim;
  return share;
}

int64_t mlp_parameters(const ModelSpec& model, int64_t width, bool bias) {
  const int64_t biases = (mlp_matrices(model) - 1) * width + model.hidden;
  return mlp_matrices(model) * model.hidden * width + (bias ? biases : 0);
}

// The experts' part of one layer, with `experts` of the routed ones.
int64_t mixture_parameters(const ModelSpec& model, int64_t experts) {
  const ExpertSpec& moe = model.moe;
  int64_t count = experts * mlp_parameters(model, moe.ffn_hidden, moe.expert_biases);
  count += mlp_matrices(model) * model.hidden * moe.shared_hidden;
  count += moe.experts * model.hidden;  // router
  if (moe.router_bias) count += moe.experts;
  if (moe.shared_gate) count += model.hidden;
  return count;
}

int64_t count_parameters(const ModelSpec& model, int64_t experts) {
  const int64_t mixtures = model.is_dense() ? 0 : model.layers - model.moe.dense_layers;
  int64_t layers = model.layers * (attention_matrices(model) + attention_vectors(model) +
                                   model.norms_per_layer * norm_size(model));
  layers += (model.layers - mixtures) * mlp_parameters(model, model.ffn_hidden, model.mlp_bias);
  layers += mixtures * mixture_parameters(model, experts);

  int64_t ends = model.vocab * embedding_width(model) * (model.tied_embeddings ? 1 : 2);
  ends += embedding_projections(model);
  if (model.position == PositionKind::learned)
    ends += (model.positions + model.extra_position_rows) * model.hidden;
  if (model.embedding_norm) ends += norm_size(model);
  if (model.final_norm) ends += norm_size(model);
  if (model.head_bias) ends += model.vocab;
  return layers + ends;
}

struct Bound {
  std::string_view name;
  int64_t value;
  int64_t low;
  int64_t high;
};

// Wide enough for every model of the next years, and so narrow that no product overflows.
std::vector<Bound> bounds_of(const ModelSpec& model) {
  const bool mixture = !model.is_dense();
  const bool latent = model.has_latent_attention();
  const int64_t narrowest = mixture && model.moe.dense_layers == 0 ? 0 : 1;  // no dense MLP at all
  return {{"layers", model.layers, 1, 10'000},
          {"hidden", model.hidden, 1, 1'000'000},
          {"heads", model.heads, 1, 10'000},
          {"kv_heads", model.kv_heads, 1, 10'000},
          {"head_dim", model.head_dim, 1, 100'000},
          {"ffn_hidden", model.ffn_hidden, narrowest, 10'000'000},
          {"vocab", model.vocab, 1, 100'000'000},
          {"positions", model.positions, 1, 1'000'000'000},
          {"norms_per_layer", model.norms_per_layer, 0, 8},
          {"extra_position_rows", model.extra_position_rows, 0, 1'000},
          {"embedding_width", model.embedding_width, 0, 1'000'000},
          {"sliding_window", model.sliding_window, 0, 1'000'000'000},
          {"windowed_layers", model.windowed_layers, 0, model.layers},
          {"moe.experts", model.moe.experts, 0, 100'000},
          {"moe.per_token", model.moe.per_token, mixture ? 1 : 0, model.moe.experts},
          {"moe.ffn_hidden", model.moe.ffn_hidden, mixture ? 1 : 0, 10'000'000},
          {"moe.shared_hidden", model.moe.shared_hidden, 0, 10'000'000},
          {"moe.dense_layers", model.moe.dense_layers, 0, mixture ? model.layers : 0},
          {"mla.q_rank", model.mla.q_rank, 0, 100'000},
          {"mla.kv_rank", model.mla.kv_rank, 0, 100'000},
          {"mla.nope_dim", model.mla.nope_dim, latent ? 1 : 0, 10'000},
          {"mla.rope_dim", model.mla.rope_dim, latent ? 1 : 0, 10'000},
          {"mla.value_dim", model.mla.value_dim, latent ? 1 : 0, 10'000},
          {"default_seq", model.default_seq, 0, 1'000'000'000},
          {"default_gbs", model.default_gbs, 0, 1'000'000'000}};
}

}  // namespace

int64_t parameter_count(const ModelSpec& model) {
  return count_parameters(model, model.moe.experts);
}

int64_t active_parameter_count(const ModelSpec& model) {
  return count_parameters(model, model.moe.per_token);
}

int64_t padded_vocab(int64_t vocab, int64_t multiple, int64_t tp) {
  expect(vocab > 0 && multiple > 0 && tp > 0, "positive sizes to pad a vocabulary");
  const int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

RankParameters rank_parameters(const ModelSpec& model, int64_t tp, int64_t vocab_padded) {
  const bool has_dense = model.is_dense() || model.moe.dense_layers > 0;
  expect(tp > 0 && model.heads % tp == 0 && vocab_padded % tp == 0,
         "tp to divide heads and the padded vocabulary");
  expect(!has_dense || model.ffn_hidden % tp == 0, "tp to divide ffn_hidden");
  expect(model.moe.shared_hidden % tp == 0, "tp to divide the width of the shared experts");
  expect(model.kv_heads % tp == 0 || tp % model.kv_heads == 0, "tp to divide kv_heads or back");
  expect(vocab_padded >= model.vocab, "a padded vocabulary no smaller than the vocabulary");

  const AttentionShare attention = attention_share(model, tp);
  const int64_t norms = model.norms_per_layer * norm_size(model);
  RankParameters rank;
  if (has_dense) {
    rank.layer_replicated = norms + attention.whole + (model.mlp_bias ? model.hidden : 0);
    const int64_t up = (mlp_matrices(model) - 1) * model.ffn_hidden / tp;  // and gate
    rank.layer = rank.layer_replicated + attention.split;
    rank.layer += model.hidden * (up + model.ffn_hidden / tp) + (model.mlp_bias ? up : 0);
  }
  if (!model.is_dense()) {
    const int64_t shared = mlp_matrices(model) * model.hidden * model.moe.shared_hidden;
    rank.mixture_layer = norms + attention.whole + attention.split + mixture_parameters(model, 0) -
                         shared + shared / tp;
    rank.expert = mlp_parameters(model, model.moe.ffn_hidden, model.moe.expert_biases);
  }

  const int64_t table = vocab_padded / tp * embedding_width(model);
  rank.embedding = table + embedding_projections(model);
  if (model.embedding_norm) rank.embedding += norm_size(model);
  if (model.position == PositionKind::learned)
    rank.positions = (model.positions + model.extra_position_rows) * model.hidden;
  if (model.final_norm) rank.final_norm = norm_size(model);
  rank.head = table + (model.head_bias ? vocab_padded / tp : 0);
  return rank;
}

double forward_flops_per_token(const ModelSpec& model, int64_t seq, int64_t vocab_padded) {
  const int64_t dense = mlp_matrices(model) * model.hidden * model.ffn_hidden;
  double mlps = static_cast<double>(model.layers * dense);
  if (!model.is_dense()) {
    const ExpertSpec& moe = model.moe;
    const int64_t visited = moe.per_token * moe.ffn_hidden + moe.shared_hidden;
    const int64_t router = moe.experts + (moe.shared_gate ? 1 : 0);
    const int64_t mixture = model.hidden * (mlp_matrices(model) * visited + router);
    mlps = static_cast<double>(moe.dense_layers * dense) +
           static_cast<double>((model.layers - moe.dense_layers) * mixture);
  }
  // Scores read the query's width and the context the values' width, for each earlier token.
  const int64_t score_width = model.has_latent_attention()
                                  ? model.heads * (latent_qk_dim(model) + model.mla.value_dim)
                                  : 2 * model.q_width();
  const double attention = static_cast<double>(attention_matrices(model)) +
                           static_cast<double>(seq) * static_cast<double>(score_width);
  const double head =
      static_cast<double>(vocab_padded * embedding_width(model) + embedding_projections(model));
  return 2 * (static_cast<double>(model.layers) * attention + mlps + head);
}

std::vector<std::string> shape_problems(const ModelSpec& model) {
  std::vector<std::string> problems;
  for (const Bound& bound : bounds_of(model))
    if (bound.value < bound.low || bound.value > bound.high)
      problems.push_back(fmt::format("{} must be from {} to {}, not {}", bound.name,
                                     format_grouped(bound.low), format_grouped(bound.high),
                                     bound.value));
  if (!problems.empty()) return problems;

  if (model.heads % model.kv_heads != 0)
    problems.push_back(
        fmt::format("heads {} must be a multiple of kv_heads {}", model.heads, model.kv_heads));
  constexpr int64_t kWidest = 10'000'000;
  if (model.q_width() > kWidest)
    problems.push_back(fmt::format("heads {} times head_dim {} must be at most {}", model.heads,
                                   model.head_dim, format_grouped(kWidest)));
  if ((model.sliding_window > 0) != (model.windowed_layers > 0))
    problems.push_back(
        fmt::format("sliding_window {} and windowed_layers {} must both be zero or both be more",
                    model.sliding_window, model.windowed_layers));
  constexpr int64_t kWidestMixture = 100'000'000;
  if (model.moe.experts * model.moe.ffn_hidden > kWidestMixture)
    problems.push_back(fmt::format("moe.experts {} times moe.ffn_hidden {} must be at most {}",
                                   model.moe.experts, model.moe.ffn_hidden,
                                   format_grouped(kWidestMixture)));
  return problems;
}

}  // namespace engine
