// torchtitan's present line: a configuration function and options on the command line.
#include "tuner/exchange/torchtitan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/plan/partition.h"
#include "tuner/exchange/formats.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;

namespace {

// pytorch/torchtitan, torchtitan/models/llama3/config_registry.py at b5bcd76c.
constexpr TitanModel kModels[] = {
    {"llama-3.1-8b", "llama3", "8B", "llama3_8b"},
    {"llama-3.1-70b", "llama3", "70B", "llama3_70b"},
    {"llama-3.1-405b", "llama3", "405B", "llama3_405b"},
};
// Presets of the same shapes.
constexpr std::pair<std::string_view, std::string_view> kSame[] = {
    {"llama-3-8b", "llama-3.1-8b"},
    {"llama-3-70b", "llama-3.1-70b"},
    {"llama-3.3-70b", "llama-3.1-70b"}};

}  // namespace

const TitanModel* find_titan_model(const engine::ModelSpec& model) {
  std::string_view name = model.name;
  for (const auto& [other, preset] : kSame)
    if (other == name) name = preset;
  const auto found = std::find_if(std::begin(kModels), std::end(kModels),
                                  [&](const TitanModel& one) { return one.preset == name; });
  return found == std::end(kModels) ? nullptr : &*found;
}

const TitanModel* find_titan_model(std::string_view name, std::string_view flavor) {
  const auto found =
      std::find_if(std::begin(kModels), std::end(kModels),
                   [&](const TitanModel& one) { return one.name == name && one.flavor == flavor; });
  return found == std::end(kModels) ? nullptr : &*found;
}

TitanSharding titan_sharding(const ParallelPlan& plan, Losses& losses) {
  TitanSharding sharding;
  if (plan.zero == 0) {
    sharding.replicate = plan.dp;
    if (plan.cp > 1) losses.add("torchtitan shards the weights over the context ranks in any case");
    return sharding;
  }
  if (plan.zero == 1)
    losses.add(
        "torchtitan does not shard the optimizer alone: ZeRO 2 stands there, with less memory and "
        "a reduction of gradients in every micro-batch");
  sharding.shard = plan.dp;
  sharding.reshard = plan.zero == 3 ? "always" : "never";
  return sharding;
}

TrainingConfig titan_config(TrainingConfig config, Losses& losses) {
  ParallelPlan& plan = config.plan;
  Precision& precision = config.workload.precision;
  if (precision == Precision::fp16 || precision == Precision::nvfp4) {
    losses.add(
        fmt::format("torchtitan does not train in {}: bf16 stands there", name_of(precision)));
    precision = Precision::bf16;
  }
  if (plan.recompute.mode == Recompute::Mode::selective)
    losses.add(
        "torchtitan's selective recomputation chooses by operator, not the attention core: time "
        "and memory differ from the prediction");
  if (plan.pp > 1 && plan.micro_batches() < plan.pp)
    losses.add_fatal(
        fmt::format("torchtitan's schedules need at least as many micro-batches ({}) "
                    "as stages ({})",
                    plan.micro_batches(), plan.pp));
  return config;
}

std::vector<std::vector<std::string>> titan_modules(const ParallelPlan& plan, int64_t layers) {
  const engine::Partition partition(plan, layers);
  std::vector<std::vector<std::string>> chunks;
  for (int chunk = 0; chunk < partition.chunks(); ++chunk)
    for (int stage = 0; stage < partition.stages(); ++stage) {
      std::vector<std::string>& modules = chunks.emplace_back();
      if (engine::Partition::has_embedding(stage, chunk)) modules.emplace_back("tok_embeddings");
      const engine::ChunkLayers& part = partition.chunk(stage, chunk);
      for (int i = 0; i < part.count; ++i)
        modules.push_back(fmt::format("layers.{}", part.first + i));
      if (partition.has_head(stage, chunk)) modules.insert(modules.end(), {"norm", "output"});
    }
  return chunks;
}

namespace {

// What no option of the command line sets.
std::string config_module(const TrainingConfig& config, const TitanModel* known) {
  const ParallelPlan& plan = config.plan;
  std::string text = "import importlib\nimport os\n\n";
  const bool full = plan.recompute.mode == Recompute::Mode::full;
  const bool none = plan.recompute.mode == Recompute::Mode::none;
  text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n\n\n",
                      full   ? "FullAC"
                      : none ? "SelectiveAC  # noqa: F401"
                             : "SelectiveAC");
  text += "def tuned():\n";
  text += known != nullptr ? fmt::format(
                                 "    module = os.environ.get(\"BASE_MODULE\", "
                                 "\"torchtitan.models.{}.config_registry\")\n    function = "
                                 "os.environ.get(\"BASE_CONFIG\", \"{}\")\n",
                                 known->name, known->config)
                           : "    module = os.environ[\"BASE_MODULE\"]\n    function = "
                             "os.environ[\"BASE_CONFIG\"]\n";
  text += "    config = getattr(importlib.import_module(module), function)()\n";
  text += fmt::format("    config.activation_checkpoint = {}\n", full   ? "FullAC.Config()"
                                                                 : none ? "None"
                                                                        : "SelectiveAC.Config()");
  if (!plan.layers_per_stage.empty()) {
    text += "    config.parallelism.module_fqns_per_model_part = [\n";
    for (const auto& modules : titan_modules(plan, config.model.layers))
      text += fmt::format("        [\"{}\"],\n", fmt::join(modules, "\", \""));
    text += "    ]\n";
  }
  return text + "    return config\n";
}

std::vector<std::string> options_of(const TrainingConfig& config, Losses& losses) {
  const ParallelPlan& plan = config.plan;
  const int64_t seq = config.workload.seq;
  const TitanSharding sharding = titan_sharding(plan, losses);
  std::vector<std::string> options = {
      fmt::format("--training.max_context_length {}", seq),
      fmt::format("--training.num_tokens_per_microbatch_per_dp_rank {}", plan.mbs * seq),
      fmt::format("--training.num_tokens_per_train_step {}", plan.gbs * seq),
      fmt::format("--training.steps {}", config.train_steps()),
      fmt::format("--parallelism.data_parallel_replicate_degree {}", sharding.replicate),
      fmt::format("--parallelism.data_parallel_shard_degree {}", sharding.shard),
      fmt::format("--parallelism.fsdp_reshard_after_forward {}", sharding.reshard),
      fmt::format("--parallelism.tensor_parallel_degree {}", plan.tp),
      fmt::format("--parallelism.{}enable_sequence_parallel", plan.sp || plan.tp == 1 ? "" : "no-"),
      fmt::format("--parallelism.context_parallel_degree {}", plan.cp),
      fmt::format("--parallelism.pipeline_parallel_degree {}", plan.pp)};
  if (config.workload.precision == Precision::f32)
    options.emplace_back("--training.mixed_precision_param float32");
  if (plan.pp == 1) return options;
  options.push_back(fmt::format("--parallelism.num_pp_microbatches {}", plan.micro_batches()));
  options.push_back(fmt::format("--parallelism.pipeline_parallel_schedule {}",
                                plan.vpp > 1 ? "Interleaved1F1B" : "1F1B"));
  options.emplace_back("--training.disable_cuda_graphs");  // they exclude pipelines
  if (!plan.layers_per_stage.empty()) return options;
  // The defaults take a layer off the first and the last stage.
  options.emplace_back("--parallelism.pipeline_parallel_first_stage_less_layers 0");
  options.emplace_back("--parallelism.pipeline_parallel_last_stage_less_layers 0");
  options.push_back(fmt::format("--parallelism.pipeline_parallel_layers_per_stage {}",
                                config.model.layers / (int64_t{plan.pp} * plan.vpp)));
  return options;
}

}  // namespace

Draft torchtitan_draft(const TrainingConfig& asked, const Placement& placement, Losses& losses) {
  TrainingConfig config = titan_config(asked, losses);
  const TitanModel* known = find_titan_model(config.model);
  if (known == nullptr)
    losses.add(fmt::format(
        "torchtitan has no configuration of {}: set BASE_MODULE and BASE_CONFIG to the module and "
        "function of yours that trains it",
        config.model.name));
  if (config.plan.recompute.layers > 0)
    losses.add(fmt::format("torchtitan recomputes all layers or none: full:{} stands as full",
                           config.plan.recompute.layers));
  if (config.workload.precision == Precision::fp8 || config.workload.precision == Precision::mxfp8)
    losses.add(
        fmt::format("{} is chosen in the model's configuration, not by an option: choose one "
                    "with BASE_CONFIG",
                    name_of(config.workload.precision)));
  Draft draft;
  draft.documents = {{"autotune_plan.py", config_module(config, known)}};
  draft.environment = {"export PYTHONPATH=\"$PWD${PYTHONPATH:+:$PYTHONPATH}\""};
  draft.command = torchrun(placement);
  draft.command.emplace_back("-m torchtitan.train --module autotune_plan --config tuned");
  for (std::string& option : options_of(config, losses)) draft.command.push_back(std::move(option));
  draft.notes = {
      "run it in a checkout of torchtitan; data, tokenizer and learning rate are those "
      "of the configuration it starts from"};
  return draft;
}

}  // namespace tuner
