// ServePlan: how a model is spread over GPUs to serve it; number formats of weights and KV cache.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/precision.h"
#include "tuner/model/cluster_spec.h"

namespace tuner {

// How weights, or the KV cache, are stored. int8 and int4 are weight-only: the products run in 16
// bit. fp4 is NVFP4.
enum class ServeFormat : uint8_t { f32, fp16, bf16, fp8, int8, int4, fp4, mxfp4 };
constexpr std::array<std::string_view, 8> kServeFormatNames = {"f32",  "fp16", "bf16", "fp8",
                                                               "int8", "int4", "fp4",  "mxfp4"};
constexpr std::string_view name_of(ServeFormat format) {
  return kServeFormatNames[static_cast<size_t>(format)];
}
// Bytes of one number, with the scales of its group.
double bytes_of(ServeFormat format);
// Whether it is a 4-bit float.
constexpr bool is_float4(ServeFormat format) {
  return format == ServeFormat::fp4 || format == ServeFormat::mxfp4;
}
// The format in which the products run on the device: that of the weights where it has the
// arithmetic, else 16 bit, else f32.
engine::Precision product_precision(ServeFormat weights, const DeviceSpec& device);
// The format of everything but the routed experts: checkpoints of mixtures with 4-bit weights keep
// the rest in 16 bits (the model cards of gpt-oss, Kimi K2.5 and of NVIDIA's NVFP4 mixtures).
ServeFormat split_format(ServeFormat weights, bool mixture);

struct ServePlan {
  int tp = 1;
  // Of the tp ranks, groups that each hold whole experts; 1 = every rank holds a slice of all.
  int ep = 1;
  int pp = 1;
  int replicas = 1;
  // Sequences that one replica runs together: the static batch, or the most that are in flight.
  int64_t batch = 1;
  ServeFormat weights = ServeFormat::bf16;
  ServeFormat kv = ServeFormat::bf16;

  int gpus() const { return tp * pp * replicas; }
  bool operator==(const ServePlan&) const = default;
};

// "TP 8  PP 2  4 replicas  batch 16  fp8 weights  bf16 KV", axes of size 1 left out.
std::string describe(const ServePlan& plan);

// Layers of each of pp stages: as many, or one more on the first ones.
std::vector<int> stage_layers(int64_t layers, int pp);

nlohmann::json serve_plan_to_json(const ServePlan& plan);
// Throws InputError with every problem, naming `source`.
ServePlan serve_plan_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace tuner
