// DeepSpeed: its JSON file with the command line of Megatron-DeepSpeed, and the way back.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/exchange/formats.h"
#include "tuner/exchange/megatron.h"
#include "tuner/exchange/megatron_flags.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Recompute;
using nlohmann::json;

namespace {

// The plan as Megatron-DeepSpeed can run it.
TrainingConfig expressible(TrainingConfig config, Losses& losses) {
  ParallelPlan& plan = config.plan;
  if (plan.vpp > 1)
    losses.add(fmt::format(
        "DeepSpeed's pipeline has no interleaving: vpp {} stands as 1, with a larger bubble",
        plan.vpp));
  plan.vpp = 1;
  if (!plan.layers_per_stage.empty())
    losses.add(
        "the layers of the stages are left to DeepSpeed's partitioning, which counts transformer "
        "layers");
  plan.layers_per_stage.clear();
  if (plan.pp > 1 && config.model.layers % plan.pp != 0)
    losses.add_fatal(
        fmt::format("{} layers do not divide by {} stages, which Megatron-DeepSpeed "
                    "demands; choose another pp",
                    config.model.layers, plan.pp));
  if (plan.cp > 1) {
    losses.add(fmt::format(
        "context parallelism stands as DeepSpeed's Ulysses over {} ranks, which exchanges heads",
        plan.cp));
    if (config.model.heads % (int64_t{plan.cp} * plan.tp) != 0)
      losses.add_fatal(
          fmt::format("{} heads do not divide by cp {} · tp {} for Ulysses; choose "
                      "another cp",
                      config.model.heads, plan.cp, plan.tp));
    if (plan.sp) losses.add("Ulysses excludes Megatron's sequence parallelism: sp is off");
    plan.sp = false;
  }
  if (plan.pp > 1 && plan.recompute.layers > 0) {
    losses.add("DeepSpeed's pipeline recomputes all layers or none: full:N stands as full");
    plan.recompute.layers = 0;
  }
  if (plan.zero >= 2 && plan.pp > 1) {
    losses.add(
        fmt::format("DeepSpeed's pipeline excludes ZeRO {}: ZeRO 1 stands there", plan.zero));
    plan.zero = 1;
  }
  using engine::Precision;
  Precision& precision = config.workload.precision;
  if (precision != Precision::f32 && precision != Precision::fp16 && precision != Precision::bf16) {
    losses.add(fmt::format("Megatron-DeepSpeed does not train in {}: bf16 stands there",
                           name_of(precision)));
    precision = Precision::bf16;
  }
  return config;
}

OrderedJson deepspeed_json(const TrainingConfig& config) {
  const ParallelPlan& plan = config.plan;
  OrderedJson zero = {{"stage", plan.zero}};
  if (plan.zero > 0) zero["overlap_comm"] = true;
  if (plan.zero > 0) zero["contiguous_gradients"] = true;
  OrderedJson json = {{"train_batch_size", plan.gbs},
                      {"train_micro_batch_size_per_gpu", plan.mbs},
                      {"gradient_accumulation_steps", plan.micro_batches()},
                      {"zero_optimization", std::move(zero)}};
  if (config.workload.precision == engine::Precision::bf16) json["bf16"] = {{"enabled", true}};
  if (config.workload.precision == engine::Precision::fp16) json["fp16"] = {{"enabled", true}};
  json["gradient_clipping"] = 1.0;
  json["steps_per_print"] = 1;
  json["wall_clock_breakdown"] = false;
  return json;
}

}  // namespace

Settings deepspeed_spelling(Settings s) {
  Settings older = Settings::object();
  for (const auto& [name, value] : s.items()) {
    static constexpr std::string_view kUnknown[] = {"group_query_attention",
                                                    "add_qkv_bias",
                                                    "qk_layernorm",
                                                    "tp_comm_overlap",
                                                    "overlap_grad_reduce",
                                                    "overlap_param_gather",
                                                    "use_megatron_fsdp",
                                                    "context_parallel_size",
                                                    "use_distributed_optimizer",
                                                    "ckpt_format",
                                                    "attention_backend",
                                                    "data_parallel_sharding_strategy",
                                                    "position_embedding_type"};
    if (std::find(std::begin(kUnknown), std::end(kUnknown), name) == std::end(kUnknown))
      older[name] = value;
  }
  // The null tokenizer of that line adds a token of its own.
  older["vocab_size"] = s["vocab_size"].get<int64_t>() - 1;
  const auto norm = s["normalization"].get<std::string>();
  older["normalization"] = norm == "RMSNorm" ? "rmsnorm" : "layernorm";
  return older;
}

Draft deepspeed_draft(const TrainingConfig& asked, const Placement& placement, Losses& losses) {
  const TrainingConfig config = expressible(asked, losses);
  const ParallelPlan& plan = config.plan;
  Draft draft;
  draft.documents = {{"ds_config.json", deepspeed_json(config).dump(2) + "\n"}};
  if (plan.tp > 1 && placement.architecture != "blackwell")
    draft.environment = {"export CUDA_DEVICE_MAX_CONNECTIONS=1"};
  draft.command = torchrun(placement);
  draft.command.emplace_back("pretrain_gpt.py");
  const Settings settings = megatron_settings(config, losses);
  for (std::string flag : megatron_flags(deepspeed_spelling(settings))) {
    const auto rename = [&](std::string_view from, std::string_view to) {
      if (flag.starts_with(std::string(from) + " ")) flag.replace(0, from.size(), to);
    };
    rename("--num-query-groups", "--num-key-value-heads");
    rename("--norm-epsilon", "--layernorm-epsilon");
    rename("--rotary-base", "--rotary-position-embeddings-theta");
    draft.command.push_back(std::move(flag));
  }
  const auto add = [&](std::string text) { draft.command.push_back(std::move(text)); };
  if (config.model.position == engine::PositionKind::rotary)
    add("--use-rotary-position-embeddings");
  if (config.model.position == engine::PositionKind::none) add("--no-position-embedding");
  if (settings.contains("add_qkv_bias") || settings.contains("qk_layernorm"))
    losses.add(
        "Megatron-DeepSpeed has neither biases of queries, keys and values alone nor norms on "
        "them: "
        "they are left out");
  if (config.workload.attention == engine::AttentionKind::flash) add("--use-flash-attn-v2");
  if (plan.cp > 1) add(fmt::format("--ds-sequence-parallel-size {}", plan.cp));
  if (plan.pp == 1) add("--no-pipeline-parallel");
  if (plan.recompute.mode == Recompute::Mode::full) add("--deepspeed-activation-checkpointing");
  add("--deepspeed");
  add("--deepspeed_config ds_config.json");
  add(fmt::format("--zero-stage {}", plan.zero));
  add("--lr 3e-4");
  add("--min-lr 3e-5");
  add("--lr-decay-style cosine");
  draft.notes = {
      "yours to add: --data-path and, in place of the NullTokenizer, your tokenizer; --lr and "
      "--min-lr; arguments of this script are added at the end"};
  return draft;
}

namespace {

// What only the JSON file says.
struct DeepSpeedFile {
  int64_t batch = 0, micro = 0, accumulation = 0;
  int zero = 0;
  int64_t tensor = 0;
  bool bf16 = false, fp16 = false;
};

DeepSpeedFile read_json(const json& document, Imported& out) {
  engine::Problems problems(out.source);
  engine::ObjectReader in(document, "", problems);
  constexpr engine::IntegerRange kCount{1, int64_t{1} << 40};
  DeepSpeedFile file;
  file.batch = in.integer("train_batch_size", kCount, 0);
  file.micro = in.integer("train_micro_batch_size_per_gpu", kCount, 0);
  file.accumulation = in.integer("gradient_accumulation_steps", kCount, 0);
  engine::ObjectReader zero = in.object("zero_optimization");
  file.zero = static_cast<int>(zero.integer("stage", {0, 3}, 0));
  if (zero.has("offload_optimizer") || zero.has("offload_param"))
    out.remarks.push_back("offloading to the host is not predicted");
  file.bf16 =
      in.object("bf16").flag("enabled", false) || in.object("bfloat16").flag("enabled", false);
  file.fp16 = in.object("fp16").flag("enabled", false);
  file.tensor = in.object("tensor_parallel").integer("autotp_size", kCount, 0);
  problems.throw_if_any();
  for (const std::string& key : in.keys()) {
    static constexpr std::string_view kRead[] = {"train_batch_size",
                                                 "train_micro_batch_size_per_gpu",
                                                 "gradient_accumulation_steps",
                                                 "zero_optimization",
                                                 "bf16",
                                                 "bfloat16",
                                                 "fp16",
                                                 "tensor_parallel"};
    if (std::find(std::begin(kRead), std::end(kRead), key) == std::end(kRead))
      out.ignored.push_back(one_line(key));
  }
  return file;
}

// DeepSpeed stops at the start where its three sizes contradict each other.
void check_batch(const DeepSpeedFile& file, const Imported& out) {
  if (file.batch == 0 || file.micro == 0 || file.accumulation == 0) return;
  const int64_t share = file.micro * file.accumulation;
  const int64_t replicas = out.gpus / (int64_t{out.plan.tp} * out.plan.pp * out.plan.cp);
  const bool whole = file.batch % share == 0;
  if (whole && (out.gpus == 0 || file.batch / share == replicas)) return;
  throw engine::InputError(fmt::format(
      "{}: train_batch_size {} is not train_micro_batch_size_per_gpu {} · "
      "gradient_accumulation_steps {} · {} replicas; DeepSpeed refuses to start: leave one out or "
      "set it right",
      out.source, file.batch, file.micro, file.accumulation,
      out.gpus == 0 ? std::string("a number of") : std::to_string(replicas)));
}

}  // namespace

void read_deepspeed(const json& document, const std::vector<std::string>& words, Imported& out) {
  out.format = "deepspeed";
  const DeepSpeedFile file = read_json(document, out);
  Settings settings = settings_of_flags(words, out.source, out.ignored);
  settings["zero_stage"] = file.zero;
  if (file.bf16) settings["bf16"] = true;
  if (file.fp16) settings["fp16"] = true;
  const bool words_say_batch = settings.contains("global_batch_size");
  if (file.micro > 0) settings["micro_batch_size"] = file.micro;
  if (file.batch > 0) settings["global_batch_size"] = file.batch;
  if (settings.contains("vocab_size") && settings.value("tokenizer_type", "") == "NullTokenizer")
    settings["vocab_size"] = settings["vocab_size"].get<int64_t>() + 1;
  if (file.tensor > 1 && !settings.contains("tensor_model_parallel_size"))
    settings["tensor_model_parallel_size"] = file.tensor;
  if (!settings.contains("attention_backend")) settings["attention_backend"] = "unfused";
  if (words.empty()) settings.erase("attention_backend");
  std::erase_if(out.ignored, [](const std::string& flag) {
    return flag == "--deepspeed" || flag == "--deepspeed_config" ||
           flag == "--deepspeed-activation-checkpointing" || flag == "--no-pipeline-parallel";
  });
  read_megatron_settings(settings, out);
  check_batch(file, out);
  out.accumulation = file.accumulation;
  out.has_batch = file.batch > 0 || words_say_batch;
  const bool sharded = out.plan.pp == 1 && out.plan.zero >= 1;
  out.stack = sharded ? "deepspeed-zero3" : "megatron-deepspeed-2022";
}

}  // namespace tuner
