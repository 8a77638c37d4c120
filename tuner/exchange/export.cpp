// Reading a stored answer, and handing its best plan to a format.
#include "tuner/exchange/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "engine/plan/outcome.h"
#include "tuner/exchange/assemble.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/model/serve_stack.h"
#include "tuner/model/stack.h"

namespace tuner {

using engine::InputError;
using nlohmann::json;

namespace {

constexpr ExportTarget kTargets[] = {
    {"megatron-lm", "Megatron-LM of August 2026 (core 0.16 and later)", megatron_lm_draft},
    {"megatron-bridge", "Megatron-Bridge of August 2026", megatron_bridge_draft},
    {"deepspeed", "DeepSpeed 0.19 with Megatron-DeepSpeed of 2024", deepspeed_draft},
    {"nemo2", "NeMo 2.x (of September 2025)", nemo2_draft},
    {"nemo1", "NeMo 1.x (NeMo-Framework-Launcher, frozen in April 2025)", nemo1_draft},
    {"torchtitan", "torchtitan of August 2026", torchtitan_draft},
    {"torchtitan-toml", "torchtitan up to 0.2.2", torchtitan_toml_draft},
    {"accelerate", "Accelerate 1.15", accelerate_draft},
    {"nanotron", "nanotron of April 2026", nanotron_draft},
    {"job", "autotune-worker of this release", job_draft},
    {"vllm", "vLLM 0.20", nullptr, vllm_draft},
    {"sglang", "SGLang 0.5", nullptr, sglang_draft},
    {"tensorrt-llm", "TensorRT-LLM 1.3", nullptr, tensorrt_llm_draft},
};

const ExportTarget& find_target(const std::string& name, bool serves) {
  std::vector<std::string> all, fitting;
  const ExportTarget* found = nullptr;
  for (const ExportTarget& target : kTargets) {
    all.emplace_back(target.name);
    if ((target.serve != nullptr) == serves) fitting.emplace_back(target.name);
    if (target.name == name) found = &target;
  }
  if (found == nullptr)
    throw InputError(engine::unknown_name("target", name, all,
                                          fmt::format("there are {}", fmt::join(all, ", "))));
  if ((found->serve != nullptr) != serves)
    throw InputError(fmt::format("{} {}, but this is a run of `autotune {}`; export it to {}", name,
                                 serves ? "trains" : "serves", serves ? "infer" : "train",
                                 fmt::join(fitting, ", ")));
  return *found;
}

// Equal shares of the GPUs for every node, as large as the nodes allow.
Placement placement_of(const ClusterSpec& cluster) {
  Placement placement;
  placement.gpus_per_node = cluster.gpus <= cluster.gpus_per_node()
                                ? cluster.gpus
                                : std::gcd(cluster.gpus, cluster.gpus_per_node());
  placement.nodes = cluster.gpus / placement.gpus_per_node;
  placement.architecture = cluster.device.architecture;
  return placement;
}

std::string model_text(const engine::ModelSpec& model, const ClusterSpec& cluster) {
  return fmt::format("{} on {} × {}", model.name, engine::format_grouped(cluster.gpus),
                     cluster.device.title);
}

std::string interval_text(double value, const engine::Interval& interval) {
  std::string text = engine::format_seconds(value);
  if (interval.high > interval.low)
    text += fmt::format(" ({} to {})", engine::format_seconds(interval.low),
                        engine::format_seconds(interval.high));
  return text;
}

std::string outcome_text(const engine::Outcome& outcome) {
  return fmt::format("{}: step {}, {:.1f} % MFU, memory {} of {} at the fullest stage",
                     outcome.measured ? "measured" : "predicted (90 % interval)",
                     interval_text(outcome.step_seconds, outcome.interval_seconds),
                     100 * outcome.mfu, engine::format_bytes(outcome.memory.peak_bytes),
                     engine::format_bytes(outcome.memory.capacity_bytes));
}

const json& best_of(const json& answer) {
  if (!answer.contains("best") || !answer["best"].is_object() || !answer["best"].contains("plan"))
    throw InputError("this run found no plan that fits, so there is nothing to export");
  return answer["best"];
}

engine::ModelSpec model_of(const json& answer) {
  json model = answer.value("model", json::object());
  model.erase("parameters");  // of the answer, not of the shape
  return engine::model_spec_from_json(model, "the model of the run");
}

struct Described {
  Draft draft;
  std::vector<std::string> header;
};

Described train_draft(const json& answer, const ExportTarget& target, const ClusterSpec& cluster,
                      Losses& losses) {
  const json& best = best_of(answer);
  TrainingConfig config;
  config.model = model_of(answer);
  config.plan = engine::plan_from_json(best["plan"], "the plan of the run");
  config.workload = engine::workload_from_json(answer.value("workload", json::object()),
                                               "the workload of the run");
  const std::string stack = answer.value("stack", json::object()).value("name", "");
  const std::vector<std::string> known = stack_names();
  if (std::find(known.begin(), known.end(), stack) != known.end())
    config.overlaps_tensor = find_stack(stack).overlaps_tensor_sharded;
  const bool measured = best.contains("measured") && best["measured"].is_object();
  const engine::Outcome outcome = engine::outcome_from_json(
      best[measured ? "measured" : "predicted"], "the outcome of the run");
  const engine::Workload& work = config.workload;
  Described result;
  result.header = {
      fmt::format("{}, seq {}, gbs {}, {}, {} attention", model_text(config.model, cluster),
                  work.seq, work.gbs, name_of(work.precision), name_of(work.attention)),
      "plan: " + engine::describe(config.plan),
      outcome_text(outcome) + (stack.empty() ? "" : ", for the stack " + stack)};
  result.draft = target.train(config, placement_of(cluster), losses);
  return result;
}

// What the target takes by default, or was asked to take; more where the plan needs it.
double memory_share(const json& answer, const ServeStack& target, Losses& losses) {
  const json run = answer.value("stack", json::object());
  const double share = run.value("name", "") == target.name
                           ? run.value("memory_share", target.memory_share)
                           : target.memory_share;
  const json memory =
      best_of(answer).value("predicted", json::object()).value("memory", json::object());
  const auto bytes = [&](const char* use) { return memory.value(use, 0.0); };
  const double rest = bytes("weight_bytes") + bytes("runtime_bytes"), cache = bytes("kv_bytes");
  const double all = std::max(1.0, bytes("capacity_bytes"));
  const double needed = target.share_of == ShareOf::free ? cache / std::max(1.0, all - rest)
                        : target.share_of == ShareOf::all
                            ? (rest + cache + bytes("activation_bytes")) / all
                            : (rest + cache) / all;
  if (needed <= share) return share;
  constexpr double kMost = 0.99;
  losses.add(
      fmt::format("the plan was found under {} and needs {:.1f} % of the memory that {} would take "
                  "{:.3g} % of ({}), so that less stays free; --stack {} finds one that leaves it",
                  run.value("name", "another stack"), 100 * needed, target.name, 100 * share,
                  target.share_option, target.name));
  return std::min(kMost, std::ceil(1000 * needed) / 1000);
}

ServeConfig serve_config(const json& answer, const ServeStack& target, Losses& losses) {
  const json& best = best_of(answer);
  ServeConfig config;
  config.model = model_of(answer);
  config.plan = serve_plan_from_json(best["plan"], "the plan of the run");
  const json work = answer.value("workload", json::object());
  config.longest = work.value("input", int64_t{512}) + work.value("output", int64_t{128});
  config.memory_share = memory_share(answer, target, losses);
  return config;
}

Described serve_draft(const json& answer, const ExportTarget& target, const ClusterSpec& cluster,
                      Losses& losses) {
  // A target of serving has the name of its stack.
  const ServeConfig config =
      serve_config(answer, find_serve_stack(std::string(target.name)), losses);
  const json predicted = best_of(answer).value("predicted", json::object());
  Described result;
  result.header = {fmt::format("{}, sequences of {} tokens at most",
                               model_text(config.model, cluster), config.longest),
                   "plan: " + describe(config.plan),
                   fmt::format("predicted: latency {}, first token {}, {:.0f} tokens/s",
                               engine::format_seconds(predicted.value("latency_seconds", 0.0)),
                               engine::format_seconds(predicted.value("ttft_seconds", 0.0)),
                               predicted.value("tokens_per_second", 0.0))};
  result.draft = target.serve(config, placement_of(cluster), losses);
  return result;
}

}  // namespace

std::span<const ExportTarget> export_targets() { return kTargets; }

bool Exported::runs() const {
  return std::all_of(losses.begin(), losses.end(), [](const Loss& loss) { return loss.runs; });
}

Exported export_answer(const json& answer, const ExportRequest& request) {
  const std::string schema = answer.is_object() ? answer.value("schema", "") : "";
  if (schema != "autotune.train/1" && schema != "autotune.infer/1")
    throw InputError(
        "only runs of `autotune train` and `autotune infer` have a plan to export; `autotune runs` "
        "lists them");
  const bool serves = schema == "autotune.infer/1";
  const ExportTarget& target = find_target(request.target, serves);
  best_of(answer);
  const ClusterSpec cluster =
      cluster_from_json(answer.value("cluster", json::object()), "the cluster of the run");
  Losses losses;
  Described described = serves ? serve_draft(answer, target, cluster, losses)
                               : train_draft(answer, target, cluster, losses);
  std::vector<std::string> header = request.provenance;
  header.push_back(fmt::format("for {}", target.version));
  header.insert(header.end(), described.header.begin(), described.header.end());
  for (const std::string& note : described.draft.notes) header.push_back(note);
  for (const Loss& loss : losses.list())
    header.push_back((loss.runs ? "not expressible: " : "does not run: ") + loss.text);
  Exported exported =
      assemble(described.draft, header, placement_of(cluster), request.slurm, target.name);
  exported.losses = losses.list();
  return exported;
}

}  // namespace tuner
