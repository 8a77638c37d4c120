// Hugging Face Accelerate: its YAML file, with FSDP 2 or with the plugin for Megatron-LM.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tuner/exchange/formats.h"

namespace tuner {
namespace {

using engine::ParallelPlan;
using engine::Recompute;

const char* mixed_precision(engine::Precision precision, Losses& losses) {
  using engine::Precision;
  switch (precision) {
    case Precision::f32:
      return "no";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::mxfp8:
    case Precision::nvfp4:
      losses.add(
          fmt::format("Accelerate does not train in {}: fp8 stands there", name_of(precision)));
      break;
    case Precision::fp8:
      break;
  }
  return "fp8";
}

OrderedJson megatron_plugin(const ParallelPlan& plan, const engine::ModelSpec& model,
                            Losses& losses) {
  OrderedJson table = {{"megatron_lm_tp_degree", plan.tp},
                       {"megatron_lm_pp_degree", plan.pp},
                       {"megatron_lm_num_micro_batches", plan.micro_batches()},
                       {"megatron_lm_sequence_parallelism", plan.sp},
                       {"megatron_lm_gradient_clipping", 1.0},
                       {"megatron_lm_use_distributed_optimizer", plan.zero > 0}};
  if (plan.recompute.mode == Recompute::Mode::selective) {
    table["megatron_lm_recompute_activations"] = true;
  } else if (plan.recompute.mode == Recompute::Mode::full) {
    const bool some = plan.recompute.layers > 0;
    table["megatron_lm_recompute_granularity"] = "full";
    table["megatron_lm_recompute_method"] = some ? "block" : "uniform";
    table["megatron_lm_recompute_num_layers"] = some ? plan.recompute.layers : 1;
  }
  if (plan.vpp > 1)
    losses.add(
        fmt::format("Accelerate's plugin has no interleaving: vpp {} stands as 1", plan.vpp));
  if (plan.cp > 1)
    losses.add_fatal(fmt::format(
        "Accelerate's plugin has no context parallelism: cp {} cannot run; choose cp 1", plan.cp));
  if (!plan.layers_per_stage.empty() && model.layers % plan.pp != 0)
    losses.add_fatal(fmt::format(
        "Accelerate's plugin has no uneven pipelines, and {} layers do not divide by pp {}",
        model.layers, plan.pp));
  return table;
}

OrderedJson fsdp(const ParallelPlan& plan, Losses& losses) {
  OrderedJson table = {
      {"fsdp_version", 2},
      {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
      {"fsdp_reshard_after_forward", plan.zero == 3},
      {"fsdp_activation_checkpointing", plan.recompute.mode != Recompute::Mode::none},
      {"fsdp_offload_params", false},
      {"fsdp_cpu_ram_efficient_loading", true},
      {"fsdp_state_dict_type", "SHARDED_STATE_DICT"}};
  if (plan.recompute.mode == Recompute::Mode::selective || plan.recompute.layers > 0)
    losses.add(fmt::format("FSDP recomputes all layers or none: {} stands as full",
                           to_string(plan.recompute)));
  if (plan.sp || plan.tp > 1)
    losses.add(
        "how layers are split over tp is the model's own plan; sequence parallelism is no "
        "option of Accelerate");
  return table;
}

OrderedJson parallelism(const ParallelPlan& plan) {
  OrderedJson table = {{"parallelism_config_dp_replicate_size", plan.zero == 0 ? plan.dp : 1},
                       {"parallelism_config_dp_shard_size", plan.zero == 0 ? 1 : plan.dp},
                       {"parallelism_config_tp_size", plan.tp},
                       {"parallelism_config_cp_size", plan.cp}};
  if (plan.cp > 1) table["parallelism_config_cp_comm_strategy"] = "allgather";
  return table;
}

}  // namespace

Draft accelerate_draft(const TrainingConfig& config, const Placement& placement, Losses& losses) {
  const ParallelPlan& plan = config.plan;
  // FSDP has no pipelines, and does not shard the optimizer alone.
  const bool megatron = plan.pp > 1 || (plan.zero == 1 && plan.cp == 1);
  OrderedJson document = {{"compute_environment", "LOCAL_MACHINE"},
                          {"distributed_type", megatron ? "MEGATRON_LM" : "FSDP"},
                          {"mixed_precision", mixed_precision(config.workload.precision, losses)},
                          {"num_machines", placement.nodes},
                          {"num_processes", placement.nodes * placement.gpus_per_node},
                          {"machine_rank", 0},
                          {"main_training_function", "main"},
                          {"rdzv_backend", "static"},
                          {"same_network", true},
                          {"use_cpu", false}};
  if (megatron) {
    document["megatron_lm_config"] = megatron_plugin(plan, config.model, losses);
  } else {
    document["fsdp_config"] = fsdp(plan, losses);
    document["parallelism_config"] = parallelism(plan);
  }
  if (megatron && plan.zero >= 2)
    losses.add(fmt::format("with a pipeline the optimizer only is sharded: ZeRO {} stands as 1",
                           plan.zero));
  Draft draft;
  draft.documents = {{"accelerate.yaml", yaml_text(document)}};
  draft.document_is_answer = true;
  draft.command = {
      "accelerate launch --config_file accelerate.yaml --machine_rank \"${NODE_RANK:-0}\"",
      "--main_process_ip \"${MASTER_ADDR:-localhost}\" --main_process_port "
      "\"${MASTER_PORT:-29500}\"",
      "\"${TRAIN_SCRIPT:?set TRAIN_SCRIPT to your training script}\"",
      fmt::format("--per_device_train_batch_size {}", plan.mbs),
      fmt::format("--gradient_accumulation_steps {}", megatron ? 1 : plan.micro_batches())};
  draft.notes = {
      fmt::format("the batch is that of the training script: {} sequences a device and {} steps of "
                  "accumulation, of {} tokens each; the model is the script's, too",
                  plan.mbs, megatron ? 1 : plan.micro_batches(), config.workload.seq)};
  return draft;
}

}  // namespace tuner
