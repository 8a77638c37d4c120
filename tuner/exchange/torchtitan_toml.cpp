// torchtitan up to 0.2.2: its TOML file, and such files as plans.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/partition.h"
#include "tuner/exchange/formats.h"
#include "tuner/exchange/megatron.h"
#include "tuner/exchange/torchtitan.h"
#include "tuner/model/presets.h"

namespace tuner {

using engine::ParallelPlan;
using engine::Precision;
using engine::Recompute;
using nlohmann::json;

namespace {

int longest_chunk(const ParallelPlan& plan, int64_t layers) {
  const std::vector<int> shares = engine::layers_per_stage(plan, layers);
  return (*std::max_element(shares.begin(), shares.end()) + plan.vpp - 1) / plan.vpp;
}

OrderedJson checkpointing(const TrainingConfig& config, Losses& losses) {
  const Recompute& recompute = config.plan.recompute;
  switch (recompute.mode) {
    case Recompute::Mode::none:
      return {{"mode", "none"}};
    case Recompute::Mode::selective:
      return {{"mode", "selective"}, {"selective_ac_option", "op"}};
    case Recompute::Mode::full:
      break;
  }
  if (recompute.layers == 0) return {{"mode", "full"}};
  const int chunk = longest_chunk(config.plan, config.model.layers);
  if (!config.plan.layers_per_stage.empty() || chunk % recompute.layers != 0) {
    losses.add(
        fmt::format("torchtitan recomputes every k-th layer, and {} of {} are none such: "
                    "full:{} stands as full",
                    recompute.layers, chunk, recompute.layers));
    return {{"mode", "full"}};
  }
  return {{"mode", "selective"}, {"selective_ac_option", std::to_string(chunk / recompute.layers)}};
}

OrderedJson parallelism(const TrainingConfig& config, Losses& losses) {
  const ParallelPlan& plan = config.plan;
  const TitanSharding sharding = titan_sharding(plan, losses);
  OrderedJson table = {{"data_parallel_replicate_degree", sharding.replicate},
                       {"data_parallel_shard_degree", sharding.shard},
                       {"fsdp_reshard_after_forward", sharding.reshard},
                       {"tensor_parallel_degree", plan.tp},
                       {"context_parallel_degree", plan.cp},
                       {"pipeline_parallel_degree", plan.pp}};
  if (plan.tp > 1 && !plan.sp)
    losses.add(
        "torchtitan up to 0.2.2 has tensor parallelism only with sequence parallelism: it "
        "is on");
  if (plan.pp == 1) return table;
  table["pipeline_parallel_schedule"] = plan.vpp > 1 ? "Interleaved1F1B" : "1F1B";
  table["pipeline_parallel_microbatch_size"] = plan.mbs;
  if (!plan.layers_per_stage.empty()) {
    table["module_fqns_per_model_part"] = titan_modules(plan, config.model.layers);
    return table;
  }
  // The defaults take a layer off the first and the last stage.
  table["pipeline_parallel_first_stage_less_layers"] = 0;
  table["pipeline_parallel_last_stage_less_layers"] = 0;
  table["pipeline_parallel_layers_per_stage"] = config.model.layers / (int64_t{plan.pp} * plan.vpp);
  return table;
}

}  // namespace

Draft torchtitan_toml_draft(const TrainingConfig& asked, const Placement& placement,
                            Losses& losses) {
  const TrainingConfig config = titan_config(asked, losses);
  const ParallelPlan& plan = config.plan;
  const TitanModel* known = find_titan_model(config.model);
  if (known == nullptr)
    losses.add(fmt::format(
        "torchtitan knows no model {}: register its shape under the name and flavor in [model]",
        config.model.name));
  OrderedJson document = OrderedJson::object();
  OrderedJson& model = document["model"];
  model["name"] = known != nullptr ? std::string(known->name) : "llama3";
  model["flavor"] = known != nullptr ? std::string(known->flavor) : config.model.name;
  OrderedJson& training = document["training"];
  training["local_batch_size"] = plan.pp > 1 ? plan.mbs * plan.micro_batches() : plan.mbs;
  training["global_batch_size"] = plan.gbs;
  training["seq_len"] = config.workload.seq;
  training["steps"] = config.train_steps();
  if (config.workload.precision == Precision::f32) training["mixed_precision_param"] = "float32";
  document["parallelism"] = parallelism(config, losses);
  document["activation_checkpoint"] = checkpointing(config, losses);
  document["compile"] = {{"enable", true}, {"components", {"model", "loss"}}};
  if (config.workload.precision == Precision::fp8) {
    model["converters"] = {"quantize.linear.float8"};
    document["quantize"]["linear"]["float8"]["filter_fqns"] = {"output"};
  } else if (config.workload.precision == Precision::mxfp8) {
    model["converters"] = {"quantize.linear.mx"};
    document["quantize"]["linear"]["mx"]["filter_fqns"] = {"output"};
  }
  Draft draft;
  draft.documents = {{"torchtitan.toml", toml_text(document)}};
  draft.document_is_answer = true;
  draft.command = torchrun(placement);
  draft.command.emplace_back("-m torchtitan.train --job.config_file torchtitan.toml");
  draft.notes = {"data, tokenizer and learning rate are yours to add"};
  return draft;
}

namespace {

class TitanReader {
 public:
  TitanReader(const json& toml, Imported& out)
      : problems_(out.source), in_(toml, "", problems_), out_(out) {}

  void run() {
    engine::ObjectReader model = in_.object("model");
    engine::ObjectReader training = in_.object("training");
    engine::ObjectReader parallel = in_.object("parallelism");
    const TitanModel* known = find_titan_model(model.text("name", ""), model.text("flavor", ""));
    if (known != nullptr) out_.model = find_model(std::string(known->preset));
    if (known == nullptr)
      out_.remarks.push_back(
          "the file names a model whose shape is not known here; --model says it");
    sizes(training, parallel);
    sharding(parallel);
    precision(model, training);
    problems_.throw_if_any();
    pipeline(parallel);
    problems_.throw_if_any();
    recomputation(in_.object("activation_checkpoint"));
    problems_.throw_if_any();
  }

 private:
  static constexpr engine::IntegerRange kDegree{1, 1 << 20};
  static constexpr engine::IntegerRange kBatch{1, int64_t{1} << 40};

  void sizes(engine::ObjectReader& training, engine::ObjectReader& parallel) {
    ParallelPlan& plan = out_.plan;
    plan.tp = static_cast<int>(parallel.integer("tensor_parallel_degree", kDegree, 1));
    plan.cp = static_cast<int>(parallel.integer("context_parallel_degree", kDegree, 1));
    plan.pp = static_cast<int>(parallel.integer("pipeline_parallel_degree", kDegree, 1));
    plan.ep = static_cast<int>(parallel.integer("expert_parallel_degree", kDegree, 1));
    plan.sp = plan.tp > 1;
    out_.seq = training.integer("seq_len", kBatch, 2048);
    local_ = training.integer("local_batch_size", kBatch, 8);
    plan.mbs =
        plan.pp > 1 ? parallel.integer("pipeline_parallel_microbatch_size", kBatch, 1) : local_;
    const int64_t global = training.integer("global_batch_size", {-1, kBatch.high}, -1);
    out_.has_batch = global > 0;
    plan.gbs = std::max<int64_t>(1, global);
    out_.accumulation = plan.pp > 1 ? std::max<int64_t>(1, local_ / plan.mbs) : 1;
  }

  void sharding(engine::ObjectReader& parallel) {
    ParallelPlan& plan = out_.plan;
    const int64_t replicate = parallel.integer("data_parallel_replicate_degree", kDegree, 1);
    const int64_t shard = parallel.integer("data_parallel_shard_degree", {-1, kDegree.high}, -1);
    const int reshard =
        parallel.choice("fsdp_reshard_after_forward", {"default", "always", "never"}, 0);
    // By default weights are gathered anew for the backward pass, but not in a pipeline.
    const bool anew = reshard == 1 || (reshard == 0 && plan.pp == 1);
    // The weights are sharded over the context ranks, too, so that there is always a shard then.
    const bool sharded = shard != 1 || plan.cp > 1;
    plan.zero = !sharded ? 0 : anew ? 3 : 2;
    if (replicate > 1 && shard != 1)
      out_.remarks.push_back(fmt::format(
          "sharding within groups that replicate {} times is predicted as sharding over all ranks",
          replicate));
    if (shard < 1 || replicate * shard > kDegree.high) return;
    const int64_t gpus = replicate * shard * plan.tp * plan.cp * plan.pp;
    if (gpus <= kDegree.high) out_.gpus = static_cast<int>(gpus);
  }

  void precision(engine::ObjectReader& model, engine::ObjectReader& training) {
    const bool f32 = training.text("mixed_precision_param", "bfloat16") == "float32";
    out_.precision = f32 ? Precision::f32 : Precision::bf16;
    for (const json& converter : model.value("converters")) {
      if (!converter.is_string()) continue;
      const auto name = converter.get<std::string>();
      if (name.ends_with(".float8") || name == "float8") out_.precision = Precision::fp8;
      if (name.ends_with(".mx") || name == "mx") out_.precision = Precision::mxfp8;
    }
    out_.attention = engine::AttentionKind::flash;
    out_.stack = "pytorch-fsdp2";
  }

  void pipeline(engine::ObjectReader& parallel) {
    ParallelPlan& plan = out_.plan;
    if (plan.pp == 1) return;
    const std::string schedule = parallel.text("pipeline_parallel_schedule", "1F1B");
    const bool several = schedule.starts_with("Interleaved");
    if (schedule != "1F1B" && schedule != "Interleaved1F1B")
      out_.remarks.push_back(fmt::format("the schedule {} is predicted as {}", one_line(schedule),
                                         several ? "Interleaved1F1B" : "1F1B"));
    if (const json& parts = parallel.value("module_fqns_per_model_part"); parts.is_array())
      return listed(parts);
    const int64_t first =
        parallel.integer("pipeline_parallel_first_stage_less_layers", {0, 100}, 1);
    const int64_t last = parallel.integer("pipeline_parallel_last_stage_less_layers", {0, 100}, 1);
    const int64_t length = parallel.integer("pipeline_parallel_layers_per_stage", kDegree, 0);
    if (!out_.model) {
      plan.vpp = several ? 2 : 1;
      return;
    }
    const int64_t layers = out_.model->layers;
    const int64_t weight = layers + first + last;
    const int64_t chunks =
        length > 0 ? (weight + length - 1) / length : plan.pp * (several ? 2 : 1);
    if (chunks % plan.pp != 0 || chunks > weight) {
      parallel.problem("pipeline_parallel_layers_per_stage",
                       fmt::format("makes {} chunks of {} layers, no multiple of the {} stages",
                                   chunks, layers, plan.pp));
      return;
    }
    std::vector<int> counts;
    for (int64_t i = 0; i < chunks; ++i)
      counts.push_back(static_cast<int>(weight / chunks + (i < weight % chunks ? 1 : 0)));
    counts.front() -= static_cast<int>(first);
    counts.back() -= static_cast<int>(last);
    use_chunk_layers(counts, layers, plan, out_.source);
  }

  // The layers by name, a list for each chunk.
  void listed(const json& parts) {
    std::vector<int> counts;
    for (const json& part : parts) {
      counts.push_back(0);
      for (const json& name : part)
        if (name.is_string() && name.get<std::string>().starts_with("layers.")) ++counts.back();
    }
    const int64_t layers = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    use_chunk_layers(counts, out_.model ? out_.model->layers : layers, out_.plan, out_.source);
  }

  void recomputation(engine::ObjectReader table) {
    Recompute& recompute = out_.plan.recompute;
    const int mode = table.choice("mode", {"none", "selective", "full", "memory_budget"}, 1);
    const std::string option = table.text("selective_ac_option", "2");
    if (mode == 2) recompute.mode = Recompute::Mode::full;
    if (mode == 3) out_.remarks.push_back("a memory budget is predicted as no recomputation");
    if (mode != 1) return;
    if (option == "op" || !out_.model) {
      recompute.mode = Recompute::Mode::selective;
      return;
    }
    const bool digits = !option.empty() && option.size() < 6 &&
                        option.find_first_not_of("0123456789") == std::string::npos;
    const int every = digits ? std::stoi(option) : 0;
    if (every == 0)
      return table.problem("selective_ac_option", "must be \"op\" or a number above 0");
    const int chunk = longest_chunk(out_.plan, out_.model->layers);
    if (chunk >= every) recompute = {Recompute::Mode::full, chunk / every};
    if (every == 1) recompute.layers = 0;
  }

  engine::Problems problems_;
  engine::ObjectReader in_;
  Imported& out_;
  int64_t local_ = 1;
};

}  // namespace

void read_torchtitan(const json& toml, Imported& imported) {
  imported.format = "torchtitan-toml";
  if (!toml.contains("parallelism") && !toml.contains("training"))
    throw engine::InputError(imported.source +
                             ": this TOML is no torchtitan configuration: it has neither "
                             "[parallelism] nor [training]");
  TitanReader(toml, imported).run();
}

}  // namespace tuner
