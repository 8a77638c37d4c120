// nanotron: its YAML file.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tuner/exchange/formats.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Recompute;

OrderedJson parallelism(const TrainingConfig& config, Losses& losses) {
  const ParallelPlan& plan = config.plan;
  if (plan.vpp > 1)
    losses.add(fmt::format("nanotron has no interleaving: vpp {} stands as 1", plan.vpp));
  if (!plan.layers_per_stage.empty())
    losses.add("nanotron places the layers on the stages itself, by their cost");
  if (plan.recompute.mode == Recompute::Mode::selective || plan.recompute.layers > 0)
    losses.add(fmt::format("nanotron recomputes all layers or none: {} stands as full",
                           to_string(plan.recompute)));
  // The defaults of pp_engine and tp_mode are the slow ones.
  return {{"dp", plan.dp},
          {"tp", plan.tp},
          {"pp", plan.pp},
          {"context_parallel_size", plan.cp},
          {"expert_parallel_size", plan.ep},
          {"pp_engine", "1f1b"},
          {"tp_mode", plan.sp ? "REDUCE_SCATTER" : "ALL_REDUCE"},
          {"tp_linear_async_communication", plan.sp},
          {"recompute_layer", plan.recompute.mode != Recompute::Mode::none},
          {"tp_recompute_allgather", true}};
}

OrderedJson model(const TrainingConfig& config, Losses& losses) {
  const engine::ModelSpec& m = config.model;
  using engine::Precision;
  const bool f32 = config.workload.precision == Precision::f32;
  if (!f32 && config.workload.precision != Precision::bf16)
    losses.add(fmt::format("nanotron does not train in {}: bf16 stands there",
                           name_of(config.workload.precision)));
  const bool llama = m.norm == engine::NormKind::rms_norm && m.gated_mlp &&
                     m.position == engine::PositionKind::rotary && !m.mlp_bias;
  if (!llama)
    losses.add(
        fmt::format("nanotron trains models like Llama: {} stands as one of its sizes, with "
                    "RMSNorm, a gated MLP and rotary positions",
                    m.name));
  return {{"dtype", f32 ? "float32" : "bfloat16"},
          {"ddp_bucket_cap_mb", 25},
          {"make_vocab_size_divisible_by", 1},
          {"init_method", {{"std", 0.02}}},
          {"model_config",
           {{"is_llama_config", true},
            {"hidden_size", m.hidden},
            {"intermediate_size", m.ffn_hidden},
            {"num_hidden_layers", m.layers},
            {"num_attention_heads", m.heads},
            {"num_key_value_heads", m.kv_heads},
            {"vocab_size", m.vocab},
            {"max_position_embeddings", std::max(m.positions, config.workload.seq)},
            {"rope_theta", m.rotary_base},
            {"rms_norm_eps", m.norm_epsilon},
            {"tie_word_embeddings", m.tied_embeddings}}}};
}

OrderedJson optimizer(const ParallelPlan& plan, Losses& losses) {
  if (plan.zero >= 2)
    losses.add(
        fmt::format("nanotron shards the optimizer only: ZeRO {} stands as 1, with more "
                    "memory for gradients and weights",
                    plan.zero));
  return {{"zero_stage", plan.zero > 0 ? 1 : 0},
          {"accumulate_grad_in_fp32", true},
          {"clip_grad", 1.0},
          {"weight_decay", 0.1},
          {"optimizer_factory",
           {{"name", "adamW"},
            {"adam_beta1", 0.9},
            {"adam_beta2", 0.95},
            {"adam_eps", 1e-8},
            {"torch_adam_is_fused", true}}},
          {"learning_rate_scheduler",
           {{"learning_rate", 3e-4},
            {"lr_warmup_steps", 1},
            {"lr_warmup_style", "linear"},
            {"lr_decay_style", "cosine"},
            {"min_decay_lr", 3e-5}}}};
}

}  // namespace

Draft nanotron_draft(const TrainingConfig& config, const Placement& placement, Losses& losses) {
  const ParallelPlan& plan = config.plan;
  const OrderedJson document = {
      {"general",
       {{"project", "autotune"},
        {"run", "tuned"},
        {"benchmark_csv_path", "bench.csv"},
        {"ignore_sanity_checks", true}}},
      {"parallelism", parallelism(config, losses)},
      {"tokens",
       {{"sequence_length", config.workload.seq},
        {"micro_batch_size", plan.mbs},
        {"batch_accumulation_per_replica", plan.micro_batches()},
        {"train_steps", config.train_steps()},
        {"limit_val_batches", 0},
        {"val_check_interval", -1}}},
      {"model", model(config, losses)},
      {"optimizer", optimizer(plan, losses)},
      {"tokenizer", {{"tokenizer_name_or_path", "robot-test/dummy-tokenizer-wordlevel"}}}};
  Draft draft;
  draft.documents = {{"nanotron.yaml", yaml_text(document)}};
  draft.document_is_answer = true;
  if (plan.tp > 1) draft.environment = {"export CUDA_DEVICE_MAX_CONNECTIONS=1"};
  draft.command = torchrun(placement);
  draft.command.emplace_back("run_train.py --config-file nanotron.yaml");
  draft.notes = {"the tokenizer, the learning rate and data_stages are yours to set"};
  return draft;
}

}  // namespace tuner
