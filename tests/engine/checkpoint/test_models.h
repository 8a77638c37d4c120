// Small models of both families for tests of checkpoints.
#pragma once
#include "engine/plan/model_spec.h"

namespace engine {

inline ModelSpec tiny_gpt2() {
  ModelSpec m;
  m.name = "tiny-gpt2";
  m.layers = 2;
  m.hidden = 16;
  m.heads = m.kv_heads = 4;
  m.head_dim = 4;
  m.ffn_hidden = 64;
  m.vocab = 50;
  m.positions = 32;
  m.activation = ActivationKind::gelu_tanh;
  return m;
}

inline ModelSpec tiny_llama() {
  ModelSpec m;
  m.name = "tiny-llama";
  m.layers = 2;
  m.hidden = 16;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 8;
  m.ffn_hidden = 40;
  m.vocab = 50;
  m.positions = 64;
  m.norm = NormKind::rms_norm;
  m.activation = ActivationKind::silu;
  m.position = PositionKind::rotary;
  m.gated_mlp = true;
  m.tied_embeddings = false;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = m.dropout = false;
  m.rotary_base = 5e5;
  m.norm_epsilon = 1e-6;
  return m;
}

}  // namespace engine
