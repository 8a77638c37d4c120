// ModelSpec: the shape of a decoder-only transformer, and what it holds and computes.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace engine {

enum class NormKind : uint8_t { layer_norm, rms_norm };
enum class PositionKind : uint8_t { learned, rotary, alibi, none };
enum class ActivationKind : uint8_t { gelu, gelu_tanh, relu, silu };

// Mixture of experts (predicted when it serves, not yet when it trains). All zero for a dense
// model.
struct ExpertSpec {
  int64_t experts = 0;         // routed experts a layer
  int64_t per_token = 0;       // experts a token visits
  int64_t ffn_hidden = 0;      // width of one routed expert
  int64_t shared_hidden = 0;   // total width of the shared experts
  int64_t dense_layers = 0;    // layers with a dense MLP instead (of width ModelSpec::ffn_hidden)
  bool shared_gate = false;    // a gate of `hidden` parameters on the shared expert
  bool router_bias = false;    // one parameter an expert
  bool expert_biases = false;  // biases in every expert
};

// Multi-head latent attention (predicted when it serves, not yet when it trains). All zero for
// ordinary attention.
struct LatentAttentionSpec {
  int64_t q_rank = 0;  // 0 = the query is not compressed
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  int64_t value_dim = 0;
};

struct ModelSpec {
  std::string name;
  std::string origin;  // where it was read: "preset", a file, or how it was derived

  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn_hidden = 0;
  int64_t vocab = 0;      // before padding
  int64_t positions = 0;  // longest sequence; rows of a learned position table

  NormKind norm = NormKind::layer_norm;
  ActivationKind activation = ActivationKind::gelu;
  PositionKind position = PositionKind::learned;
  bool gated_mlp = false;       // three matrices instead of two
  bool tied_embeddings = true;  // the head uses the embedding's matrix
  bool qkv_bias = true;
  bool attention_out_bias = true;
  bool mlp_bias = true;
  bool head_bias = false;
  bool dropout = true;          // on attention weights and residual branches while training
  bool qk_norm = false;         // norms over head_dim on queries and keys
  bool parallel_block = false;  // attention and MLP read the same input
  bool embedding_norm = false;
  bool final_norm = true;
  bool attention_sinks = false;  // one parameter a head
  int norms_per_layer = 2;
  int64_t extra_position_rows = 0;  // OPT's table has two rows more
  int64_t embedding_width = 0;      // 0 = hidden; else projections sit between (OPT-350M)
  int64_t sliding_window = 0;       // tokens; 0 = every layer attends to the whole sequence
  int64_t windowed_layers = 0;      // layers that attend to the window alone; 0 without one
  double norm_epsilon = 1e-5;
  double rotary_base = 10000.0;
  double rotary_fraction = 1.0;  // part of head_dim that rotates

  ExpertSpec moe;
  LatentAttentionSpec mla;
  // How the checkpoint stores its weights and asks for its KV cache: f32, fp16, bf16, fp8, int8,
  // int4 or fp4; empty = not stated.
  std::string weight_format;
  std::string kv_format;
  // What the model has that no prediction covers, of training or of serving; empty = nothing.
  std::vector<std::string> not_modelled;

  // Defaults of a run, 0 = not given.
  int64_t default_seq = 0;
  int64_t default_gbs = 0;

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
  bool is_dense() const { return moe.experts == 0; }
  bool has_latent_attention() const { return mla.kv_rank > 0; }
};

// All parameters of the model as published: unpadded vocabulary, tied embeddings once.
int64_t parameter_count(const ModelSpec& model);
// Parameters a token touches: only the visited experts of a mixture.
int64_t active_parameter_count(const ModelSpec& model);

// The vocabulary padded to a multiple of `multiple` · tp (Megatron pads to 128 · tp).
int64_t padded_vocab(int64_t vocab, int64_t multiple, int64_t tp);

// Parameters that one rank of the tensor axis holds of each part of a model. Column- and
// row-parallel weights and column biases are split; norms, row biases, routers, the compressions of
// latent attention and the position table are replicated; with tp > kv_heads a rank holds one whole
// KV head.
struct RankParameters {
  int64_t layer = 0;             // one decoder layer with a dense MLP
  int64_t layer_replicated = 0;  // of `layer`, replicated over tp (norms, row-parallel biases)
  int64_t mixture_layer = 0;     // one with experts, apart from the routed ones
  int64_t expert = 0;            // one routed expert, whole
  int64_t embedding = 0;         // token table (vocabulary / tp) and its norm, projections
  int64_t positions = 0;         // learned position table (replicated)
  int64_t final_norm = 0;        // replicated
  int64_t head = 0;  // vocabulary / tp; also where tied, when not on the embedding's rank
};
RankParameters rank_parameters(const ModelSpec& model, int64_t tp, int64_t vocab_padded);

// Matrix-product FLOPs of one token: forward through the layers and the head, attention scores
// counted over the full square of `seq` (the convention of Narayanan et al. 2021, eq. 3, for GPT).
// One training step without recomputation costs three times this.
double forward_flops_per_token(const ModelSpec& model, int64_t seq, int64_t vocab_padded);

// Problems of the shape itself (a head count that does not divide, a size of zero); empty = sound.
std::vector<std::string> shape_problems(const ModelSpec& model);

void to_json(nlohmann::json& json, const ModelSpec& model);
// Reads what to_json wrote. Throws InputError with every problem, naming `source`.
ModelSpec model_spec_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
