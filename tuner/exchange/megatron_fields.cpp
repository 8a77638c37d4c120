// The table of Megatron-Core's settings.
#include "tuner/exchange/megatron_fields.h"

#include <algorithm>

namespace tuner {
namespace {

using Kind = MegatronField::Kind;

// Flags: NVIDIA/Megatron-LM at d98e8a64; overrides: NVIDIA-NeMo/Megatron-Bridge at 067f987d; YAML:
// NeMo-Framework-Launcher at 26e42fa9.
constexpr MegatronField kFields[] = {
    // Shape.
    {"num_layers", Kind::integer, "--num-layers", "model.num_layers", "model.num_layers"},
    {"hidden_size", Kind::integer, "--hidden-size", "model.hidden_size", "model.hidden_size"},
    {"ffn_hidden_size", Kind::integer, "--ffn-hidden-size", "model.ffn_hidden_size",
     "model.ffn_hidden_size"},
    {"num_attention_heads", Kind::integer, "--num-attention-heads", "model.num_attention_heads",
     "model.num_attention_heads"},
    {"group_query_attention", Kind::on, "--group-query-attention", "", ""},
    {"num_query_groups", Kind::integer, "--num-query-groups", "model.num_query_groups",
     "model.num_query_groups"},
    {"kv_channels", Kind::integer, "--kv-channels", "model.kv_channels", "model.kv_channels"},
    {"seq_length", Kind::integer, "--seq-length", "dataset.seq_length", "model.encoder_seq_length"},
    {"max_position_embeddings", Kind::integer, "--max-position-embeddings",
     "model.max_position_embeddings", "model.max_position_embeddings"},
    {"position_embedding_type", Kind::text, "--position-embedding-type",
     "model.position_embedding_type", "model.position_embedding_type"},
    {"rotary_percent", Kind::number, "--rotary-percent", "model.rotary_percent",
     "model.rotary_percentage"},
    {"rotary_base", Kind::integer, "--rotary-base", "model.rotary_base", "model.rotary_base"},
    {"normalization", Kind::text, "--normalization", "model.normalization", "model.normalization"},
    {"layernorm_epsilon", Kind::number, "--norm-epsilon", "model.layernorm_epsilon",
     "model.layernorm_epsilon"},
    {"swiglu", Kind::on, "--swiglu", "", ""},
    {"squared_relu", Kind::on, "--squared-relu", "", ""},
    {"bias_gelu_fusion", Kind::off, "--no-bias-gelu-fusion", "", ""},
    {"activation_func", Kind::text, "", "model.activation_func", "model.activation"},
    {"gated_linear_unit", Kind::on, "", "model.gated_linear_unit", ""},
    {"share_embeddings_and_output_weights", Kind::off, "--untie-embeddings-and-output-weights",
     "model.share_embeddings_and_output_weights", "model.share_embeddings_and_output_weights"},
    {"add_bias_linear", Kind::off, "--disable-bias-linear", "model.add_bias_linear", "model.bias"},
    {"add_qkv_bias", Kind::on, "--add-qkv-bias", "model.add_qkv_bias", ""},
    {"qk_layernorm", Kind::on, "--qk-layernorm", "model.qk_layernorm", ""},
    {"attention_dropout", Kind::number, "--attention-dropout", "model.attention_dropout",
     "model.attention_dropout"},
    {"hidden_dropout", Kind::number, "--hidden-dropout", "model.hidden_dropout",
     "model.hidden_dropout"},
    {"num_moe_experts", Kind::integer, "--num-experts", "model.num_moe_experts", ""},
    {"moe_router_topk", Kind::integer, "--moe-router-topk", "model.moe_router_topk", ""},
    {"moe_ffn_hidden_size", Kind::integer, "--moe-ffn-hidden-size", "model.moe_ffn_hidden_size",
     ""},
    {"multi_latent_attention", Kind::on, "--multi-latent-attention", "", ""},
    {"tokenizer_type", Kind::text, "--tokenizer-type", "tokenizer.tokenizer_type", ""},
    {"vocab_size", Kind::integer, "--vocab-size", "tokenizer.vocab_size",
     "model.override_vocab_size"},
    {"make_vocab_size_divisible_by", Kind::integer, "--make-vocab-size-divisible-by",
     "model.make_vocab_size_divisible_by", "model.make_vocab_size_divisible_by"},
    // Plan.
    {"tensor_model_parallel_size", Kind::integer, "--tensor-model-parallel-size",
     "model.tensor_model_parallel_size", "model.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", Kind::integer, "--pipeline-model-parallel-size",
     "model.pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
    {"virtual_pipeline_model_parallel_size", Kind::integer,
     "--num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size",
     "model.virtual_pipeline_model_parallel_size"},
    {"num_layers_per_virtual_pipeline_stage", Kind::integer,
     "--num-layers-per-virtual-pipeline-stage", "", ""},
    {"microbatch_group_size_per_vp_stage", Kind::integer,
     "--microbatch-group-size-per-virtual-pipeline-stage",
     "model.microbatch_group_size_per_vp_stage", ""},
    {"num_layers_in_first_pipeline_stage", Kind::integer, "--decoder-first-pipeline-num-layers",
     "model.num_layers_in_first_pipeline_stage", ""},
    {"num_layers_in_last_pipeline_stage", Kind::integer, "--decoder-last-pipeline-num-layers",
     "model.num_layers_in_last_pipeline_stage", ""},
    {"account_for_embedding_in_pipeline_split", Kind::on,
     "--account-for-embedding-in-pipeline-split", "model.account_for_embedding_in_pipeline_split",
     ""},
    {"account_for_loss_in_pipeline_split", Kind::on, "--account-for-loss-in-pipeline-split",
     "model.account_for_loss_in_pipeline_split", ""},
    {"pipeline_model_parallel_layout", Kind::text, "--pipeline-model-parallel-layout",
     "model.pipeline_model_parallel_layout", ""},
    {"context_parallel_size", Kind::integer, "--context-parallel-size",
     "model.context_parallel_size", "model.context_parallel_size"},
    {"expert_model_parallel_size", Kind::integer, "--expert-model-parallel-size",
     "model.expert_model_parallel_size", "model.expert_model_parallel_size"},
    {"sequence_parallel", Kind::on, "--sequence-parallel", "model.sequence_parallel",
     "model.sequence_parallel"},
    {"recompute_granularity", Kind::text, "--recompute-granularity", "model.recompute_granularity",
     "model.activations_checkpoint_granularity"},
    {"recompute_method", Kind::text, "--recompute-method", "model.recompute_method",
     "model.activations_checkpoint_method"},
    {"recompute_num_layers", Kind::integer, "--recompute-num-layers", "model.recompute_num_layers",
     "model.activations_checkpoint_num_layers"},
    {"recompute_modules", Kind::texts, "--recompute-modules", "model.recompute_modules", ""},
    {"distribute_saved_activations", Kind::on, "--distribute-saved-activations",
     "model.distribute_saved_activations", ""},
    {"cpu_offloading", Kind::on, "--cpu-offloading", "model.cpu_offloading", ""},
    {"tp_comm_overlap", Kind::on, "--tp-comm-overlap", "comm_overlap.tp_comm_overlap",
     "model.ub_tp_comm_overlap"},
    {"use_distributed_optimizer", Kind::on, "--use-distributed-optimizer",
     "ddp.use_distributed_optimizer", ""},
    {"overlap_grad_reduce", Kind::on, "--overlap-grad-reduce", "ddp.overlap_grad_reduce", ""},
    {"overlap_param_gather", Kind::on, "--overlap-param-gather", "ddp.overlap_param_gather", ""},
    {"use_megatron_fsdp", Kind::on, "--use-megatron-fsdp", "ddp.use_megatron_fsdp", ""},
    {"data_parallel_sharding_strategy", Kind::text, "--data-parallel-sharding-strategy",
     "ddp.data_parallel_sharding_strategy", ""},
    {"ckpt_format", Kind::text, "--ckpt-format", "checkpoint.ckpt_format", ""},
    {"zero_stage", Kind::integer, "--zero-stage", "", ""},
    {"ds_sequence_parallel_size", Kind::integer, "--ds-sequence-parallel-size", "", ""},
    // Batch, precision, kernels, length.
    {"micro_batch_size", Kind::integer, "--micro-batch-size", "train.micro_batch_size",
     "model.micro_batch_size"},
    {"global_batch_size", Kind::integer, "--global-batch-size", "train.global_batch_size",
     "model.global_batch_size"},
    {"train_iters", Kind::integer, "--train-iters", "train.train_iters", "trainer.max_steps"},
    {"bf16", Kind::on, "--bf16", "", ""},
    {"fp16", Kind::on, "--fp16", "", ""},
    {"fp8", Kind::text, "--fp8-format", "", ""},
    {"fp8_recipe", Kind::text, "--fp8-recipe", "", ""},
    {"fp4", Kind::text, "--fp4-format", "", ""},
    {"attention_backend", Kind::text, "--attention-backend", "model.attention_backend", ""},
};

// Other flags for the same settings.
struct Alias {
  std::string_view flag;
  std::string_view name;
};
constexpr Alias kAliases[] = {
    {"--num-key-value-heads", "num_query_groups"},
    {"--layernorm-epsilon", "layernorm_epsilon"},
    {"--rotary-position-embeddings-theta", "rotary_base"},
    {"--use-custom-fsdp", "use_megatron_fsdp"},
};

template <class Matches>
const MegatronField* find(const Matches& matches) {
  const auto found = std::find_if(std::begin(kFields), std::end(kFields), matches);
  return found == std::end(kFields) ? nullptr : &*found;
}

}  // namespace

std::span<const MegatronField> megatron_fields() { return kFields; }

const MegatronField* find_megatron_field(std::string_view name) {
  return find([&](const MegatronField& field) { return field.name == name; });
}

const MegatronField* find_megatron_flag(std::string_view flag) {
  if (flag.empty()) return nullptr;
  for (const Alias& alias : kAliases)
    if (alias.flag == flag) return find_megatron_field(alias.name);
  return find([&](const MegatronField& field) { return field.flag == flag; });
}

}  // namespace tuner
