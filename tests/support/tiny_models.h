// Models small enough that every plan of a test trains in milliseconds.
#pragma once
#include "engine/plan/model_spec.h"

namespace tiny {

// LayerNorm, GeLU, biases, learned positions, dropout, a tied embedding and a vocabulary that needs
// padding.
inline engine::ModelSpec gpt() {
  engine::ModelSpec model;
  model.name = "tiny gpt";
  model.layers = 4;
  model.hidden = 32;
  model.heads = model.kv_heads = 4;
  model.head_dim = 8;
  model.ffn_hidden = 64;
  model.vocab = 100;
  model.positions = 16;
  return model;
}

// RMSNorm, SwiGLU, rotary positions, grouped KV heads, an untied head, no biases.
inline engine::ModelSpec llama() {
  engine::ModelSpec model = gpt();
  model.name = "tiny llama";
  model.kv_heads = 2;
  model.norm = engine::NormKind::rms_norm;
  model.activation = engine::ActivationKind::silu;
  model.position = engine::PositionKind::rotary;
  model.gated_mlp = true;
  model.tied_embeddings = false;
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = false;
  model.dropout = false;
  return model;
}

}  // namespace tiny
