// NeMo: YAML of the 1.x line and its way back, a recipe in Python for 2.x.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/exchange/formats.h"
#include "tuner/exchange/megatron.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;
using nlohmann::json;

namespace {

// Sets "model.optim.name" in nested objects.
void put(OrderedJson& document, std::string_view path, OrderedJson value) {
  const size_t dot = path.find('.');
  OrderedJson& member = document[std::string(path.substr(0, dot))];
  if (dot == std::string_view::npos)
    member = std::move(value);
  else
    put(member, path.substr(dot + 1), std::move(value));
}

// Null where a part of the path is missing.
const json* find(const json& document, std::string_view path) {
  const size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (!document.is_object() || !document.contains(key)) return nullptr;
  const json& member = document[key];
  return dot == std::string_view::npos ? &member : find(member, path.substr(dot + 1));
}

void put_activation(const engine::ModelSpec& model, OrderedJson& document) {
  const bool silu = model.activation == engine::ActivationKind::silu;
  const char* name = silu && model.gated_mlp ? "swiglu" : model.gated_mlp ? "geglu" : "gelu";
  put(document, "model.activation", name);
  // The fused kernel is the tanh approximation.
  if (!model.gated_mlp && model.activation == engine::ActivationKind::gelu)
    put(document, "model.bias_activation_fusion", false);
}

void put_precision(const engine::Workload& work, OrderedJson& document, Losses& losses) {
  Precision precision = work.precision;
  if (precision == Precision::mxfp8 || precision == Precision::nvfp4) {
    losses.add(fmt::format("NeMo 1.x does not train in {}: fp8 stands there", name_of(precision)));
    precision = Precision::fp8;
  }
  const bool half = precision == Precision::fp16;
  put(document, "trainer.precision",
      precision == Precision::f32 ? OrderedJson(32)
      : half                      ? OrderedJson(16)
                                  : OrderedJson("bf16"));
  put(document, "model.megatron_amp_O2", precision != Precision::f32);
  put(document, "model.transformer_engine", true);
  if (precision != Precision::fp8) return;
  put(document, "model.fp8", true);
  put(document, "model.fp8_hybrid", true);
}

// What the YAML has no name for.
TrainingConfig expressible(TrainingConfig config, Losses& losses) {
  ParallelPlan& plan = config.plan;
  if (plan.zero >= 2) {
    losses.add(
        fmt::format("NeMo 1.x shards the optimizer only: ZeRO {} stands as 1, with more "
                    "memory for gradients and weights",
                    plan.zero));
    plan.zero = 1;
  }
  if (!plan.layers_per_stage.empty()) {
    const bool divides = config.model.layers % (int64_t{plan.pp} * plan.vpp) == 0;
    const std::string what = "NeMo 1.x has no uneven pipelines";
    if (divides)
      losses.add(what + ": the stages stand with equal layers");
    else
      losses.add_fatal(fmt::format("{}: {} layers do not divide by pp {} · vpp {}; choose others",
                                   what, config.model.layers, plan.pp, plan.vpp));
    plan.layers_per_stage.clear();
  }
  if (config.model.qk_norm) losses.add("NeMo 1.x has no norms on queries and keys: left out");
  const bool biases = config.model.attention_out_bias && config.model.mlp_bias;
  if (config.model.qkv_bias && !biases)
    losses.add("NeMo 1.x has no biases of queries, keys and values alone: left out");
  config.model.qk_norm = false;
  config.model.qkv_bias = biases;
  return config;
}

}  // namespace

Draft nemo1_draft(const TrainingConfig& asked, const Placement& placement, Losses& losses) {
  const TrainingConfig config = expressible(asked, losses);
  OrderedJson document = OrderedJson::object();
  put(document, "trainer.num_nodes", placement.nodes);
  put(document, "trainer.devices", placement.gpus_per_node);
  put(document, "trainer.accelerator", "gpu");
  put_precision(config.workload, document, losses);
  const Settings settings = megatron_settings(config, losses);
  for (const auto& [name, value] : settings.items()) {
    const MegatronField* field = find_megatron_field(name);
    if (*field->nemo != '\0') put(document, field->nemo, value);
  }
  put(document, "model.normalization",
      config.model.norm == engine::NormKind::rms_norm ? "rmsnorm" : "layernorm");
  put_activation(config.model, document);
  if (settings.contains("microbatch_group_size_per_vp_stage"))
    losses.add_fatal(
        fmt::format("NeMo 1.x needs micro-batches ({}) that divide by pp {} for interleaving",
                    config.plan.micro_batches(), config.plan.pp));
  put(document, "model.optim.name",
      config.plan.zero > 0 ? "mcore_distributed_optim" : "fused_adam");
  put(document, "model.optim.lr", 3e-4);
  put(document, "model.data.seq_length", config.workload.seq);
  put(document, "model.data.data_impl", "mock");
  put(document, "model.use_flash_attention",
      config.workload.attention == engine::AttentionKind::flash);
  Draft draft;
  draft.documents = {{"nemo1.yaml", yaml_text(document)}};
  draft.document_is_answer = true;
  draft.command = torchrun(placement);
  draft.command.emplace_back("examples/nlp/language_modeling/megatron_gpt_pretraining.py");
  draft.command.emplace_back("--config-path \"$PWD\" --config-name nemo1");
  draft.notes = {
      "merge it over megatron_gpt_config.yaml; the tokenizer, the data and the learning "
      "rate are yours"};
  return draft;
}

namespace {

// Names of settings below recipe.trainer.strategy; the others of the model's configuration.
bool belongs_to_strategy(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "tensor_model_parallel_size",           "pipeline_model_parallel_size",
      "virtual_pipeline_model_parallel_size", "context_parallel_size",
      "expert_model_parallel_size",           "sequence_parallel",
      "num_layers_in_first_pipeline_stage",   "num_layers_in_last_pipeline_stage",
      "pipeline_model_parallel_layout"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

const char* nemo2_precision(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return "fp16_mixed";
    case Precision::fp8:
      return "bf16_with_fp8_mixed";
    case Precision::mxfp8:
      return "bf16_with_mxfp8_mixed";
    default:
      return "bf16_mixed";
  }
}

constexpr const char* kRecipeHead = R"(import nemo_run as run
import torch.nn.functional as F
from megatron.core.distributed import DistributedDataParallelConfig
from nemo.collections import llm
from nemo.collections.llm.recipes.precision import mixed_precision

# Any recipe gives the frame: its model, data and parallelism are replaced below.
)";

std::string nemo2_ddp(int zero) {
  std::string text = "strategy.ddp = run.Config(\n    DistributedDataParallelConfig,\n";
  const std::pair<const char*, bool> flags[] = {{"grad_reduce_in_fp32", true},
                                                {"overlap_grad_reduce", zero >= 1},
                                                {"overlap_param_gather", zero >= 1},
                                                {"use_distributed_optimizer", zero >= 1}};
  for (const auto& [name, on] : flags)
    text += fmt::format("    {}={},\n", name, on ? "True" : "False");
  if (zero >= 2)
    text += fmt::format("    use_custom_fsdp=True,\n    data_parallel_sharding_strategy=\"{}\",\n",
                        zero == 2 ? "optim_grads" : "optim_grads_params");
  return text + ")\n";
}

}  // namespace

Draft nemo2_draft(const TrainingConfig& config, const Placement& placement, Losses& losses) {
  std::string text = kRecipeHead;
  text += fmt::format(
      "recipe = llm.llama3_8b.pretrain_recipe(\n    name=\"tuned\", num_nodes={}, "
      "num_gpus_per_node={}\n)\n",
      placement.nodes, placement.gpus_per_node);
  text += "strategy = recipe.trainer.strategy\n";
  std::string model =
      "recipe.model = run.Config(\n    llm.GPTModel,\n    config=run.Config(\n"
      "        llm.GPTConfig,\n";
  const Settings settings = megatron_settings(config, losses);
  static constexpr std::string_view kElsewhere[] = {"tokenizer_type", "train_iters",
                                                    "micro_batch_size", "global_batch_size"};
  for (const auto& [name, value] : settings.items()) {
    const MegatronField* field = find_megatron_field(name);
    const bool elsewhere =
        std::find(std::begin(kElsewhere), std::end(kElsewhere), name) != std::end(kElsewhere);
    const std::string_view path = field->bridge;
    if (belongs_to_strategy(name))
      text += fmt::format("strategy.{} = {}\n", name, python_text(value));
    else if (!elsewhere && (path.starts_with("model.") || name == "seq_length") &&
             name != "attention_backend")
      model += fmt::format("        {}={},\n", name, python_text(value));
  }
  if (settings.contains("swiglu"))
    model += "        activation_func=F.silu,\n        gated_linear_unit=True,\n";
  if (settings.contains("bias_gelu_fusion")) model += "        bias_activation_fusion=False,\n";
  model += fmt::format("        vocab_size={},\n    ),\n)\n", config.model.vocab);
  for (const char* name :
       {"virtual_pipeline_model_parallel_size", "context_parallel_size", "sequence_parallel"})
    if (!settings.contains(name))
      text += fmt::format("strategy.{} = {}\n", name,
                          std::string_view(name).starts_with("v")   ? "None"
                          : std::string_view(name).starts_with("c") ? "1"
                                                                    : "False");
  text += nemo2_ddp(config.plan.zero) + model;
  if (config.workload.precision == Precision::nvfp4)
    losses.add("NeMo 2 does not train in nvfp4: bf16 stands there");
  text += config.workload.precision == Precision::f32
              ? std::string("recipe.trainer.plugins = None  # f32\n")
              : fmt::format("recipe.trainer.plugins = run.Config(mixed_precision.{})\n",
                            nemo2_precision(config.workload.precision));
  text += fmt::format(
      "recipe.data = run.Config(\n    llm.MockDataModule,\n    seq_length={},\n    "
      "global_batch_size={},\n    micro_batch_size={},\n)\n",
      config.workload.seq, config.plan.gbs, config.plan.mbs);
  text += fmt::format("recipe.trainer.max_steps = {}\n", config.train_steps());
  text += "\nif __name__ == \"__main__\":\n    run.run(recipe, direct=True)\n";
  Draft draft;
  draft.documents = {{"nemo2.py", std::move(text)}};
  draft.document_is_answer = true;
  draft.command = torchrun(placement);
  draft.command.emplace_back("nemo2.py");
  draft.notes = {"the data, the tokenizer and the optimizer's rates are yours to set"};
  return draft;
}

void read_nemo1(const json& yaml, Imported& out) {
  out.format = "nemo1";
  const json* model = find(yaml, "model");
  if (model == nullptr || !model->is_object() || !model->contains("micro_batch_size"))
    throw engine::InputError(fmt::format(
        "{}: this YAML is no NeMo 1.x configuration: model.micro_batch_size is missing; what can "
        "be "
        "read are Megatron-LM scripts, DeepSpeed JSON, NeMo 1.x YAML and torchtitan TOML",
        out.source));
  Settings settings = Settings::object();
  for (const MegatronField& field : megatron_fields()) {
    const json* value = *field.nemo == '\0' ? nullptr : find(yaml, field.nemo);
    if (value != nullptr && !value->is_null())
      settings[field.name] = OrderedJson::parse(value->dump());
  }
  const auto text = [&](std::string_view path) {
    const json* value = find(yaml, path);
    return value == nullptr     ? std::string()
           : value->is_string() ? value->get<std::string>()
                                : value->dump();
  };
  const std::string activation = text("model.activation");
  if (activation == "swiglu" || activation == "fast-swiglu") settings["swiglu"] = true;
  if (text("model.bias_activation_fusion") == "false") settings["bias_gelu_fusion"] = false;
  // Of selective recomputation the other two keys have no meaning here.
  if (text("model.activations_checkpoint_granularity") != "full") {
    settings.erase("recompute_method");
    settings.erase("recompute_num_layers");
  }
  const std::string precision = text("trainer.precision");
  if (precision.starts_with("bf16")) settings["bf16"] = true;
  if (precision.starts_with("16")) settings["fp16"] = true;
  if (text("model.fp8") == "true") settings["fp8"] = "hybrid";
  if (const std::string flash = text("model.use_flash_attention"); !flash.empty())
    settings["attention_backend"] = flash == "true" ? "flash" : "unfused";
  const std::string optimizer = text("model.optim.name");
  if (optimizer.find("distributed") != std::string::npos)
    settings["use_distributed_optimizer"] = true;
  const json* nodes = find(yaml, "trainer.num_nodes");
  const json* devices = find(yaml, "trainer.devices");
  const auto is_count = [](const json* value) {
    return value != nullptr && value->is_number_integer() && value->get<int64_t>() > 0 &&
           value->get<int64_t>() <= 1 << 20;
  };
  if (is_count(devices)) out.gpus_per_node = devices->get<int>();
  if (is_count(nodes) && is_count(devices) && nodes->get<int64_t>() * out.gpus_per_node <= 1 << 24)
    out.gpus = nodes->get<int>() * out.gpus_per_node;
  read_megatron_settings(settings, out);
}

}  // namespace tuner
