// A training config as Megatron-Core's settings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/plan/partition.h"
#include "engine/plan/schedule.h"
#include "tuner/exchange/megatron.h"

namespace tuner {
namespace {

using engine::ModelSpec;
using engine::ParallelPlan;
using engine::Recompute;

void add_activation(const ModelSpec& model, Settings& s, Losses& losses) {
  using engine::ActivationKind;
  switch (model.activation) {
    case ActivationKind::silu:
      if (model.gated_mlp)
        s["swiglu"] = true;
      else
        losses.add("Megatron-LM has SiLU only with a gate: the MLP stands as GELU");
      return;
    case ActivationKind::relu:
      losses.add("Megatron-LM has no ReLU: the MLP stands as GELU, which costs the same");
      return;
    case ActivationKind::gelu:
      s["bias_gelu_fusion"] = false;  // the fused kernel is the tanh approximation
      break;
    case ActivationKind::gelu_tanh:
      break;
  }
  if (model.gated_mlp)
    losses.add("Megatron-LM has no GELU with a gate: the MLP stands as SwiGLU, of the same cost");
  if (model.gated_mlp) {
    s.erase("bias_gelu_fusion");
    s["swiglu"] = true;
  }
}

void add_positions(const ModelSpec& model, int64_t seq, Settings& s, Losses& losses) {
  s["max_position_embeddings"] = std::max(model.positions, seq);
  switch (model.position) {
    case engine::PositionKind::learned:
      s["position_embedding_type"] = "learned_absolute";
      return;
    case engine::PositionKind::alibi:
      losses.add("Megatron-LM has no ALiBi: the model stands without positions");
      [[fallthrough]];
    case engine::PositionKind::none:
      s["position_embedding_type"] = "none";
      return;
    case engine::PositionKind::rotary:
      break;
  }
  s["position_embedding_type"] = "rope";
  if (model.rotary_fraction != 1) s["rotary_percent"] = model.rotary_fraction;
  if (model.rotary_base != std::floor(model.rotary_base))
    losses.add(fmt::format("the rotary base {} is rounded", model.rotary_base));
  s["rotary_base"] = std::llround(model.rotary_base);
}

void add_biases(const ModelSpec& model, Settings& s, Losses& losses) {
  if (model.attention_out_bias != model.mlp_bias)
    losses.add("biases of the attention output and of the MLP cannot differ: both are off");
  if (!model.attention_out_bias || !model.mlp_bias) {
    s["add_bias_linear"] = false;
    if (model.qkv_bias) s["add_qkv_bias"] = true;
  } else if (!model.qkv_bias) {
    losses.add("biases of the queries, keys and values cannot be off alone: they are on");
  }
}

void add_unknown_parts(const ModelSpec& model, Losses& losses) {
  const std::pair<bool, const char*> parts[] = {
      {model.parallel_block, "attention and MLP on the same input"},
      {model.embedding_norm, "a norm after the embedding"},
      {!model.final_norm, "leaving out the final norm"},
      {model.attention_sinks, "attention sinks"},
      {model.norms_per_layer != 2, "another number of norms in a layer than 2"},
      {model.embedding_width != 0, "an embedding of another width than the layers"},
      {model.sliding_window != 0, "sliding windows"},
      {model.head_bias, "a bias of the head"},
      {model.extra_position_rows != 0, "extra rows of the position table"}};
  for (const auto& [there, what] : parts)
    if (there) losses.add(fmt::format("the model uses {}, which is left out here", what));
}

void add_shape(const TrainingConfig& c, Settings& s, Losses& losses) {
  const ModelSpec& model = c.model;
  s["num_layers"] = model.layers;
  s["hidden_size"] = model.hidden;
  s["ffn_hidden_size"] = model.ffn_hidden;
  s["num_attention_heads"] = model.heads;
  if (model.kv_heads != model.heads) {
    s["group_query_attention"] = true;
    s["num_query_groups"] = model.kv_heads;
  }
  s["kv_channels"] = model.head_dim;
  s["seq_length"] = c.workload.seq;
  add_positions(model, c.workload.seq, s, losses);
  s["normalization"] = model.norm == engine::NormKind::rms_norm ? "RMSNorm" : "LayerNorm";
  if (model.norm_epsilon != 1e-5) s["layernorm_epsilon"] = model.norm_epsilon;
  add_activation(model, s, losses);
  if (!model.tied_embeddings) s["share_embeddings_and_output_weights"] = false;
  add_biases(model, s, losses);
  if (model.qk_norm) s["qk_layernorm"] = true;
  if (!model.dropout) {
    s["attention_dropout"] = 0.0;
    s["hidden_dropout"] = 0.0;
  }
  add_unknown_parts(model, losses);
  s["tokenizer_type"] = "NullTokenizer";
  s["vocab_size"] = model.vocab;
}

// Whether every stage but the first and the last has the same layers.
bool is_even_inside(const std::vector<int>& shares) {
  return shares.size() < 3 || std::all_of(shares.begin() + 1, shares.end() - 1,
                                          [&](int share) { return share == shares[1]; });
}

void add_layers(const TrainingConfig& c, Settings& s) {
  const ParallelPlan& plan = c.plan;
  const std::vector<int>& shares = plan.layers_per_stage;
  if (!shares.empty() && plan.vpp == 1 && plan.pp > 1 && is_even_inside(shares)) {
    s["num_layers_in_first_pipeline_stage"] = shares.front();
    s["num_layers_in_last_pipeline_stage"] = shares.back();
  } else if (!shares.empty() && plan.pp > 1) {
    s["pipeline_model_parallel_layout"] = pipeline_layout(plan, c.model.layers);
  } else if (plan.vpp > 1) {
    s["virtual_pipeline_model_parallel_size"] = plan.vpp;
  }
  const int64_t group =
      plan.vpp > 1 ? engine::interleave_group({plan.pp, plan.vpp, plan.micro_batches()}) : plan.pp;
  if (group > 0 && group != plan.pp) s["microbatch_group_size_per_vp_stage"] = group;
}

void add_recompute(const Recompute& recompute, Settings& s) {
  if (recompute.mode == Recompute::Mode::none) return;
  const bool full = recompute.mode == Recompute::Mode::full;
  s["recompute_granularity"] = full ? "full" : "selective";
  if (!full) return;
  s["recompute_method"] = recompute.layers > 0 ? "block" : "uniform";
  s["recompute_num_layers"] = std::max(recompute.layers, 1);
}

void add_sharding(int zero, Settings& s) {
  if (zero == 0) return;
  s["use_distributed_optimizer"] = true;
  s["overlap_grad_reduce"] = true;
  s["overlap_param_gather"] = true;
  if (zero == 1) return;
  s["use_megatron_fsdp"] = true;
  s["data_parallel_sharding_strategy"] = zero == 2 ? "optim_grads" : "optim_grads_params";
  s["ckpt_format"] = "fsdp_dtensor";  // Megatron-FSDP refuses all others
}

void add_plan(const TrainingConfig& c, Settings& s) {
  const ParallelPlan& plan = c.plan;
  s["tensor_model_parallel_size"] = plan.tp;
  s["pipeline_model_parallel_size"] = plan.pp;
  add_layers(c, s);
  if (plan.cp > 1) s["context_parallel_size"] = plan.cp;
  if (plan.ep > 1) s["expert_model_parallel_size"] = plan.ep;
  if (plan.sp) s["sequence_parallel"] = true;
  add_recompute(plan.recompute, s);
  if (plan.sp && c.overlaps_tensor) s["tp_comm_overlap"] = true;
  add_sharding(plan.zero, s);
  s["micro_batch_size"] = plan.mbs;
  s["global_batch_size"] = plan.gbs;
  s["train_iters"] = c.train_steps();
}

void add_precision(const engine::Workload& work, Settings& s) {
  using engine::Precision;
  if (work.precision == Precision::fp16) s["fp16"] = true;
  if (work.precision != Precision::fp16 && work.precision != Precision::f32) s["bf16"] = true;
  if (work.precision == Precision::fp8) s["fp8"] = "hybrid";
  if (work.precision == Precision::mxfp8) {
    s["fp8"] = "e4m3";
    s["fp8_recipe"] = "mxfp8";
  }
  if (work.precision == Precision::nvfp4) s["fp4"] = "e2m1";
  s["attention_backend"] = work.attention == engine::AttentionKind::flash ? "flash" : "unfused";
}

}  // namespace

int64_t TrainingConfig::train_steps() const {
  const double tokens_per_step = static_cast<double>(workload.seq * std::max<int64_t>(1, plan.gbs));
  return std::max<int64_t>(1, std::llround(std::ceil(workload.tokens / tokens_per_step)));
}

Settings megatron_settings(const TrainingConfig& config, Losses& losses) {
  Settings settings = Settings::object();
  add_shape(config, settings, losses);
  add_plan(config, settings);
  add_precision(config.workload, settings);
  return settings;
}

}  // namespace tuner
