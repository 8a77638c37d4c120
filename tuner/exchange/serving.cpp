// Serving engines: vLLM, SGLang and TensorRT-LLM.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tuner/exchange/formats.h"

namespace tuner {
namespace {

// The model argument: a path or a name that only the user knows.
constexpr const char* kModel = "\"${MODEL:?set MODEL to the checkpoint, a folder or a name}\"";

const char* dtype(ServeFormat format) {
  return format == ServeFormat::fp16  ? "float16"
         : format == ServeFormat::f32 ? "float32"
                                      : "bfloat16";
}

bool is_16_bit_or_more(ServeFormat format) {
  return format == ServeFormat::f32 || format == ServeFormat::fp16 || format == ServeFormat::bf16;
}

// What quantised weights need.
void tell_weights(const ServeConfig& config, const char* engine, Losses& losses) {
  const ServeFormat weights = config.plan.weights;
  if (is_16_bit_or_more(weights) || weights == ServeFormat::fp8) return;
  losses.add(
      fmt::format("{} weights are a matter of the checkpoint: set MODEL to one that is "
                  "quantised so; {} finds its format there",
                  name_of(weights), engine));
}

void tell_cache(const ServeConfig& config, const char* engine, Losses& losses) {
  const ServeFormat kv = config.plan.kv;
  if (is_16_bit_or_more(kv) || kv == ServeFormat::fp8) return;
  losses.add(fmt::format("{} has no KV cache in {}: the model's format stands there", engine,
                         name_of(kv)));
}

void tell_replicas(const ServeConfig& config, const char* engine, const char* which,
                   Losses& losses) {
  const ServePlan& plan = config.plan;
  losses.add(
      fmt::format("{} has no replicas {}in one server: start {} of them, each on its own "
                  "{} GPUs, behind a balancer",
                  engine, which, plan.replicas, plan.tp * plan.pp));
}

std::vector<std::string> across_nodes(const ServeConfig& config, const Placement& placement,
                                      const char* engine, Losses& losses) {
  if (config.plan.tp * config.plan.pp <= placement.gpus_per_node) return {};
  losses.add(fmt::format(
      "a replica spans {} nodes: {} has to be started on each of them",
      (config.plan.tp * config.plan.pp + placement.gpus_per_node - 1) / placement.gpus_per_node,
      engine));
  return {};
}

}  // namespace

Draft vllm_draft(const ServeConfig& config, const Placement& placement, Losses& losses) {
  const ServePlan& plan = config.plan;
  Draft draft;
  draft.command = {fmt::format("vllm serve {}", kModel),
                   fmt::format("--tensor-parallel-size {}", plan.tp)};
  const auto add = [&](std::string text) { draft.command.push_back(std::move(text)); };
  if (plan.pp > 1) add(fmt::format("--pipeline-parallel-size {}", plan.pp));
  if (plan.ep > 1) add("--enable-expert-parallel");
  if (plan.ep > 1 && plan.ep != plan.tp)
    losses.add(fmt::format("vLLM has expert parallelism over all ranks or none: ep {} becomes {}",
                           plan.ep, plan.tp));
  // Data-parallel ranks of one server divide the experts of a mixture among all of them, tp · dp,
  // and wait for each other (vLLM, docs/serving/data_parallel_deployment.md).
  if (plan.replicas > 1 && config.model.is_dense())
    add(fmt::format("--data-parallel-size {}", plan.replicas));
  else if (plan.replicas > 1)
    tell_replicas(config, "vLLM", "that each hold all experts ", losses);
  add(fmt::format("--max-num-seqs {}", plan.batch));
  add(fmt::format("--max-model-len {}", config.longest));
  add(fmt::format("--gpu-memory-utilization {:.3f}", config.memory_share));
  if (is_16_bit_or_more(plan.weights)) add(fmt::format("--dtype {}", dtype(plan.weights)));
  if (plan.weights == ServeFormat::fp8) add("--quantization fp8");
  if (plan.kv == ServeFormat::fp8) add("--kv-cache-dtype fp8");
  tell_weights(config, "vLLM", losses);
  tell_cache(config, "vLLM", losses);
  for (std::string& more : across_nodes(config, placement, "vLLM", losses)) add(std::move(more));
  if (plan.tp * plan.pp > placement.gpus_per_node) add("--distributed-executor-backend ray");
  draft.notes = {
      "MODEL is yours to set; with --load-format dummy a folder with config.json and the "
      "tokenizer is enough to measure"};
  return draft;
}

Draft sglang_draft(const ServeConfig& config, const Placement& placement, Losses& losses) {
  const ServePlan& plan = config.plan;
  Draft draft;
  draft.command = {fmt::format("python -m sglang.launch_server --model-path {}", kModel),
                   fmt::format("--tensor-parallel-size {}", plan.tp)};
  const auto add = [&](std::string text) { draft.command.push_back(std::move(text)); };
  if (plan.pp > 1) add(fmt::format("--pipeline-parallel-size {}", plan.pp));
  if (plan.ep > 1) add(fmt::format("--expert-parallel-size {}", plan.ep));
  if (plan.replicas > 1) add(fmt::format("--data-parallel-size {}", plan.replicas));
  add(fmt::format("--max-running-requests {}", plan.batch));
  add(fmt::format("--context-length {}", config.longest));
  add(fmt::format("--mem-fraction-static {:.3f}", config.memory_share));
  if (is_16_bit_or_more(plan.weights)) add(fmt::format("--dtype {}", dtype(plan.weights)));
  if (plan.weights == ServeFormat::fp8) add("--quantization fp8");
  if (plan.kv == ServeFormat::fp8) add("--kv-cache-dtype fp8_e4m3");
  tell_weights(config, "SGLang", losses);
  tell_cache(config, "SGLang", losses);
  for (std::string& more : across_nodes(config, placement, "SGLang", losses)) add(std::move(more));
  if (const int spans = (plan.tp * plan.pp + placement.gpus_per_node - 1) / placement.gpus_per_node;
      spans > 1)
    add(
        fmt::format("--nnodes {} --node-rank \"${{NODE_RANK:-0}}\" --dist-init-addr "
                    "\"${{MASTER_ADDR:-localhost}}:${{MASTER_PORT:-29500}}\"",
                    spans));
  draft.notes = {
      "MODEL is yours to set; with --load-format dummy a folder with config.json and the "
      "tokenizer is enough to measure"};
  return draft;
}

Draft tensorrt_llm_draft(const ServeConfig& config, const Placement& placement, Losses& losses) {
  const ServePlan& plan = config.plan;
  OrderedJson document = {{"backend", "pytorch"},
                          {"tensor_parallel_size", plan.tp},
                          {"pipeline_parallel_size", plan.pp},
                          {"max_batch_size", plan.batch},
                          {"max_seq_len", config.longest},
                          {"kv_cache_config", {{"free_gpu_memory_fraction", config.memory_share}}}};
  if (plan.ep > 1) document["moe_expert_parallel_size"] = plan.ep;
  if (plan.kv == ServeFormat::fp8) document["kv_cache_config"]["dtype"] = "fp8";
  if (plan.weights == ServeFormat::fp8)
    losses.add("fp8 weights are a matter of the checkpoint: set MODEL to one that is quantised so");
  tell_weights(config, "TensorRT-LLM", losses);
  tell_cache(config, "TensorRT-LLM", losses);
  if (plan.replicas > 1) tell_replicas(config, "TensorRT-LLM", "", losses);
  Draft draft;
  draft.documents = {{"trtllm.yaml", yaml_text(document)}};
  draft.document_is_answer = true;
  draft.command = {fmt::format("trtllm-serve {}", kModel), "--backend pytorch",
                   "--config trtllm.yaml"};
  if (plan.tp * plan.pp > placement.gpus_per_node)
    draft.command.push_back(fmt::format("--gpus_per_node {}", placement.gpus_per_node));
  draft.notes = {"MODEL is yours to set"};
  return draft;
}

}  // namespace tuner
