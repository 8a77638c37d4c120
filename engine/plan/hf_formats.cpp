// The number formats of a checkpoint, from a Hugging Face config.
#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/plan/hf_reading.h"

namespace engine {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A text member of an object of which only some members concern us.
std::string text_of(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? lower(found->get<std::string>())
                                                     : std::string();
}

int64_t integer_of(const Json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

bool is_set(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

constexpr int64_t kMicroscalingGroup = 32;  // values that share a scale in MXFP4; 16 in NVFP4

std::string format_of_bits(int64_t bits, bool is_float, int64_t group = 0) {
  if (bits == 8) return is_float ? "fp8" : "int8";
  if (bits == 4 && is_float) return group == kMicroscalingGroup ? "mxfp4" : "fp4";
  return bits == 4 ? "int4" : "";
}

// compressed-tensors: {"group_0": {"weights": {"num_bits": 8, "type": "float"}}, …}
std::string format_of_groups(const Json& groups) {
  if (!groups.is_object()) return {};
  for (const auto& group : groups) {
    if (!group.is_object() || !group.contains("weights")) continue;
    const Json& weights = group.at("weights");
    const std::string format =
        format_of_bits(integer_of(weights, "num_bits"), text_of(weights, "type") == "float",
                       integer_of(weights, "group_size"));
    if (!format.empty()) return format;
  }
  return {};
}

std::string quantized_format(const Json& quantization) {
  const std::string method = text_of(quantization, "quant_method");
  const std::string names =
      method + " " + text_of(quantization, "quant_algo") + " " + text_of(quantization, "format");
  if (quantization.contains("config_groups"))
    if (const std::string format = format_of_groups(quantization.at("config_groups"));
        !format.empty())
      return format;
  if (has(names, "mxfp4")) return "mxfp4";
  if (has(names, "fp4")) return "fp4";
  if (has(names, "fp8")) return "fp8";
  if (is_set(quantization, "load_in_4bit")) return "int4";
  if (is_set(quantization, "load_in_8bit")) return "int8";
  if (const std::string format = format_of_bits(integer_of(quantization, "bits"), false);
      !format.empty())
    return format;
  return method == "awq" ? "int4" : "";
}

constexpr std::array<std::array<const char*, 2>, 4> kTypes = {
    {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "f32"}, {"float8_e4m3fn", "fp8"}}};

}  // namespace

void read_hf_formats(ObjectReader& in, ModelSpec& model) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Json& value = in.value(key);
    for (const auto& [name, format] : kTypes)
      if (value.is_string() && value.get<std::string>() == name) model.weight_format = format;
  }
  const Json& quantization = in.value("quantization_config");
  if (!quantization.is_object()) return;
  if (const std::string format = quantized_format(quantization); !format.empty())
    model.weight_format = format;
  if (has(text_of(quantization, "kv_cache_quant_algo"), "fp8")) model.kv_format = "fp8";
}

}  // namespace engine
