// The tables of tensor names; facts of the files that GPT-2 and Llama are published in.
#include "engine/checkpoint/model_tensors.h"

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace engine {
namespace {

// A part of a layer: a matrix, or a norm with `in` 0.
struct Part {
  const char* name;
  int64_t out;
  int64_t in;
  bool bias;
};

std::vector<Part> gpt2_layer(const ModelSpec& m) {
  const bool norm_bias = m.norm == NormKind::layer_norm;
  return {{"ln_1", m.hidden, 0, norm_bias},
          {"attn.c_attn", m.q_width() + 2 * m.kv_width(), m.hidden, m.qkv_bias},
          {"attn.c_proj", m.hidden, m.q_width(), m.attention_out_bias},
          {"ln_2", m.hidden, 0, norm_bias},
          {"mlp.c_fc", m.ffn_hidden, m.hidden, m.mlp_bias},
          {"mlp.c_proj", m.hidden, m.ffn_hidden, m.mlp_bias}};
}

std::vector<Part> llama_layer(const ModelSpec& m) {
  const bool norm_bias = m.norm == NormKind::layer_norm;
  std::vector<Part> parts = {{"input_layernorm", m.hidden, 0, norm_bias},
                             {"self_attn.q_proj", m.q_width(), m.hidden, m.qkv_bias},
                             {"self_attn.k_proj", m.kv_width(), m.hidden, m.qkv_bias},
                             {"self_attn.v_proj", m.kv_width(), m.hidden, m.qkv_bias},
                             {"self_attn.o_proj", m.hidden, m.q_width(), m.attention_out_bias},
                             {"post_attention_layernorm", m.hidden, 0, norm_bias}};
  if (m.gated_mlp) parts.push_back({"mlp.gate_proj", m.ffn_hidden, m.hidden, m.mlp_bias});
  parts.push_back({"mlp.up_proj", m.ffn_hidden, m.hidden, m.mlp_bias});
  parts.push_back({"mlp.down_proj", m.hidden, m.ffn_hidden, m.mlp_bias});
  return parts;
}

void refuse_unnamed_parts(const ModelSpec& model) {
  std::vector<std::string> problems;
  const auto refuse = [&](bool has, const char* what) {
    if (has)
      problems.push_back(fmt::format("model {}: checkpoints cannot hold {}", model.name, what));
  };
  refuse(!model.is_dense(), "a mixture of experts");
  refuse(model.mla.kv_rank > 0, "multi-head latent attention");
  refuse(model.qk_norm, "norms on queries and keys");
  refuse(model.parallel_block, "parallel blocks");
  refuse(model.embedding_norm, "a norm on the embedding");
  refuse(model.attention_sinks, "attention sinks");
  refuse(model.head_bias, "a bias of the head");
  refuse(model.norms_per_layer != 2, "other than two norms a layer");
  refuse(model.embedding_width != 0 && model.embedding_width != model.hidden,
         "embeddings narrower than the hidden size");
  if (!problems.empty()) throw InputError(problems);
}

class Collector {
 public:
  explicit Collector(bool transposed) : transposed_(transposed) {}

  void add(const std::string& prefix, const Part& part) {
    if (part.in == 0) {
      add(prefix + ".weight", {part.out});
    } else if (transposed_) {
      add(prefix + ".weight", {part.in, part.out});
    } else {
      add(prefix + ".weight", {part.out, part.in});
    }
    if (part.bias) add(prefix + ".bias", {part.out});
  }
  void add(std::string name, std::vector<int64_t> shape) {
    tensors_.push_back({std::move(name), std::move(shape)});
  }
  std::vector<ModelTensor> take() { return std::move(tensors_); }

 private:
  bool transposed_;
  std::vector<ModelTensor> tensors_;
};

}  // namespace

bool named_like_gpt2(const ModelSpec& model) {
  return model.position == PositionKind::learned && !model.gated_mlp;
}

std::vector<ModelTensor> model_tensors(const ModelSpec& m) {
  refuse_unnamed_parts(m);
  const bool gpt2 = named_like_gpt2(m);
  Collector tensors(gpt2);
  tensors.add(gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight", {m.vocab, m.hidden});
  if (m.position == PositionKind::learned)
    tensors.add(gpt2 ? "transformer.wpe.weight" : "model.embed_positions.weight",
                {m.positions + m.extra_position_rows, m.hidden});
  for (int64_t layer = 0; layer < m.layers; ++layer)
    for (const Part& part : gpt2 ? gpt2_layer(m) : llama_layer(m))
      tensors.add(
          fmt::format("{}.{}.{}", gpt2 ? "transformer.h" : "model.layers", layer, part.name), part);
  if (m.final_norm)
    tensors.add(gpt2 ? "transformer.ln_f" : "model.norm",
                Part{"", m.hidden, 0, m.norm == NormKind::layer_norm});
  if (!m.tied_embeddings) tensors.add("lm_head.weight", {m.vocab, m.hidden});
  return tensors.take();
}

bool is_ignored_tensor(const ModelSpec& model, const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq") ||
         (model.tied_embeddings && name == "lm_head.weight");
}

std::string bare_tensor_name(const ModelSpec& model, const std::string& name) {
  const std::string prefix = named_like_gpt2(model) ? "transformer." : "model.";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace engine
