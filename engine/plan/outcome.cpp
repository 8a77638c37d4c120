// Names and JSON of outcomes.
#include "engine/plan/outcome.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {
namespace {

constexpr std::array<std::string_view, kMemoryUses> kUseNames = {
    "parameter", "gradient",  "optimizer",     "activation", "recompute",
    "kv_cache",  "workspace", "communication", "runtime"};
constexpr std::array<std::string_view, 7> kStatusNames = {
    "ok", "out_of_memory", "crashed", "timed_out", "rejected", "bad_numbers", "interrupted"};

Json memory_to_json(const MemoryOutcome& memory) {
  Json stages = Json::array();
  for (const StageMemory& stage : memory.stages) {
    Json row = {{"stage", stage.stage}, {"total_bytes", stage.total()}};
    for (int use = 0; use < kMemoryUses; ++use)
      row[std::string(kUseNames[static_cast<size_t>(use)]) + "_bytes"] = stage.bytes[use];
    stages.push_back(std::move(row));
  }
  Json json = {{"peak_bytes", memory.peak_bytes},
               {"capacity_bytes", memory.capacity_bytes},
               {"stages", std::move(stages)}};
  if (memory.resident_bytes > 0) json["resident_bytes"] = memory.resident_bytes;
  return json;
}

MemoryOutcome memory_from_json(ObjectReader reader) {
  MemoryOutcome memory;
  memory.peak_bytes = reader.number("peak_bytes", {}, 0.0);
  memory.capacity_bytes = reader.number("capacity_bytes", {}, 0.0);
  memory.resident_bytes = reader.number("resident_bytes", {}, 0.0);
  for (ObjectReader& row : reader.objects("stages")) {
    StageMemory stage;
    stage.stage = static_cast<int>(row.integer("stage", {0, 1 << 24}));
    for (int use = 0; use < kMemoryUses; ++use)
      stage.bytes[use] =
          row.number(std::string(kUseNames[static_cast<size_t>(use)]) + "_bytes", {}, 0.0);
    memory.stages.push_back(stage);
  }
  return memory;
}

// JSON has no infinities: what is not finite is written as null.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

std::string_view name_of(MemoryUse use) { return kUseNames[static_cast<size_t>(use)]; }
std::string_view name_of(OutcomeStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

double StageMemory::total() const {
  double sum = 0;
  for (const double part : bytes) sum += part;
  return sum;
}

Json outcome_to_json(const Outcome& outcome) {
  Json parts = Json::object();
  for (const auto& [name, seconds] : outcome.breakdown_seconds) parts[name] = finite(seconds);
  Json violations = Json::array();
  for (const Violation& violation : outcome.violations)
    violations.push_back(
        {{"code", violation.code}, {"message", violation.message}, {"nearest", violation.nearest}});
  Json json = {{"status", name_of(outcome.status)},
               {"measured", outcome.measured},
               {"step_seconds", finite(outcome.step_seconds)},
               {"interval_seconds",
                {finite(outcome.interval_seconds.low), finite(outcome.interval_seconds.high)}},
               {"breakdown_seconds", std::move(parts)},
               {"tokens_per_second_per_gpu", finite(outcome.tokens_per_second_per_gpu)},
               {"tflops_per_gpu", finite(outcome.tflops_per_gpu)},
               {"mfu", finite(outcome.mfu)},
               {"memory", memory_to_json(outcome.memory)},
               {"fits", outcome.fits},
               {"violations", std::move(violations)}};
  if (!outcome.reason.empty()) json["reason"] = outcome.reason;
  if (!outcome.measured) return json;
  if (outcome.serving) json["serving"] = serving_outcome_to_json(*outcome.serving);
  json["samples_seconds"] = outcome.samples_seconds;
  json["matmul_flops_per_rank"] = outcome.matmul_flops_per_rank;
  json["loss"] = outcome.loss ? finite(*outcome.loss) : Json(nullptr);
  json["gradient_norm"] = outcome.gradient_norm ? finite(*outcome.gradient_norm) : Json(nullptr);
  Json traffic = Json::array();
  for (const Traffic& entry : outcome.traffic)
    traffic.push_back({{"verb", entry.verb},
                       {"axis", entry.axis},
                       {"messages", entry.messages},
                       {"payload_bytes", entry.payload_bytes}});
  json["traffic"] = std::move(traffic);
  return json;
}

Outcome outcome_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  Outcome outcome;
  outcome.status = static_cast<OutcomeStatus>(
      reader.choice("status", {kStatusNames.begin(), kStatusNames.end()}));
  outcome.reason = reader.text("reason", "");
  outcome.measured = reader.flag("measured", false);
  outcome.step_seconds = reader.number("step_seconds", {}, 0.0);
  const Json& interval = reader.value("interval_seconds");
  if (interval.is_array() && interval.size() == 2 && interval[0].is_number() &&
      interval[1].is_number())
    outcome.interval_seconds = {interval[0].get<double>(), interval[1].get<double>()};
  ObjectReader parts = reader.object("breakdown_seconds");
  for (const std::string& name : parts.keys())
    outcome.breakdown_seconds.emplace_back(name, parts.number(name, {}, 0.0));
  outcome.tokens_per_second_per_gpu = reader.number("tokens_per_second_per_gpu", {}, 0.0);
  outcome.tflops_per_gpu = reader.number("tflops_per_gpu", {}, 0.0);
  outcome.mfu = reader.number("mfu", {}, 0.0);
  outcome.memory = memory_from_json(reader.object("memory"));
  outcome.fits = reader.flag("fits", false);
  for (ObjectReader& row : reader.objects("violations")) {
    Violation violation{row.text("code"), row.text("message"), {}};
    if (const Json& nearest = row.value("nearest"); nearest.is_array())
      for (const Json& value : nearest)
        if (value.is_string()) violation.nearest.push_back(value.get<std::string>());
    outcome.violations.push_back(std::move(violation));
  }
  if (const Json& samples = reader.value("samples_seconds"); samples.is_array())
    for (const Json& sample : samples)
      if (sample.is_number()) outcome.samples_seconds.push_back(sample.get<double>());
  outcome.matmul_flops_per_rank = reader.number("matmul_flops_per_rank", {}, 0.0);
  if (reader.has("serving"))
    outcome.serving = serving_outcome_from_json(reader.value("serving"), source);
  if (reader.has("loss")) outcome.loss = reader.number("loss", {-1e30, 1e30});
  if (reader.has("gradient_norm")) outcome.gradient_norm = reader.number("gradient_norm", {});
  for (ObjectReader& row : reader.objects("traffic"))
    outcome.traffic.push_back({row.text("verb"), row.text("axis"), row.integer("messages", {}),
                               row.integer("payload_bytes", {})});
  problems.throw_if_any();
  return outcome;
}

}  // namespace engine
