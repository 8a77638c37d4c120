// Plans of serving in words and JSON.
#include "tuner/model/serve_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace tuner {

using engine::Precision;

double bytes_of(ServeFormat format) {
  // The scales: 16 bits for 128 weights (int4, the usual group of GPTQ and AWQ); 8 bits for 16
  // weights (fp4: NVIDIA, Introducing NVFP4, 2025) and for 32 (mxfp4: OCP Microscaling Formats 1.0,
  // table 1).
  switch (format) {
    case ServeFormat::f32:
      return 4;
    case ServeFormat::fp16:
    case ServeFormat::bf16:
      return 2;
    case ServeFormat::fp8:
    case ServeFormat::int8:
      return 1;
    case ServeFormat::int4:
      return 0.5 + 2.0 / 128;
    case ServeFormat::fp4:
      return 0.5 + 1.0 / 16;
    case ServeFormat::mxfp4:
      return 0.5 + 1.0 / 32;
  }
  return 0;
}

Precision product_precision(ServeFormat weights, const DeviceSpec& device) {
  const auto has = [&](Precision precision) { return device.peak(precision) > 0; };
  if (is_float4(weights) && has(Precision::nvfp4)) return Precision::nvfp4;
  if (weights == ServeFormat::fp8 && has(Precision::fp8)) return Precision::fp8;
  if (weights == ServeFormat::f32) return Precision::f32;
  if (weights == ServeFormat::fp16 && has(Precision::fp16)) return Precision::fp16;
  if (has(Precision::bf16)) return Precision::bf16;
  return has(Precision::fp16) ? Precision::fp16 : Precision::f32;
}

ServeFormat split_format(ServeFormat weights, bool mixture) {
  return mixture && bytes_of(weights) < 1 ? ServeFormat::bf16 : weights;
}

std::string describe(const ServePlan& plan) {
  std::string text;
  if (plan.tp > 1) text += fmt::format("TP {}  ", plan.tp);
  if (plan.ep > 1) text += fmt::format("EP {}  ", plan.ep);
  if (plan.pp > 1) text += fmt::format("PP {}  ", plan.pp);
  if (plan.replicas > 1) text += fmt::format("{} replicas  ", plan.replicas);
  return text + fmt::format("batch {}  {} weights  {} KV", plan.batch, name_of(plan.weights),
                            name_of(plan.kv));
}

std::vector<int> stage_layers(int64_t layers, int pp) {
  std::vector<int> counts(static_cast<size_t>(pp), static_cast<int>(layers / pp));
  for (int64_t i = 0; i < layers % pp; ++i) ++counts[static_cast<size_t>(i)];
  return counts;
}

nlohmann::json serve_plan_to_json(const ServePlan& plan) {
  return {{"tp", plan.tp},         {"pp", plan.pp},
          {"ep", plan.ep},         {"replicas", plan.replicas},
          {"batch", plan.batch},   {"weights", name_of(plan.weights)},
          {"kv", name_of(plan.kv)}};
}

ServePlan serve_plan_from_json(const nlohmann::json& json, const std::string& source) {
  engine::Problems problems(source);
  engine::ObjectReader object(json, "plan", problems);
  const std::vector<std::string> names(kServeFormatNames.begin(), kServeFormatNames.end());
  constexpr engine::IntegerRange kDegree{1, 1'000'000};
  ServePlan plan;
  plan.tp = static_cast<int>(object.integer("tp", kDegree));
  plan.pp = static_cast<int>(object.integer("pp", kDegree));
  plan.ep = static_cast<int>(object.integer("ep", kDegree, 1));
  plan.replicas = static_cast<int>(object.integer("replicas", kDegree));
  plan.batch = object.integer("batch", {1, 1'000'000'000});
  plan.weights = static_cast<ServeFormat>(object.choice("weights", names));
  plan.kv = static_cast<ServeFormat>(object.choice("kv", names));
  problems.throw_if_any();
  return plan;
}

}  // namespace tuner
