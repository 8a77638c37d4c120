// Number formats and their names.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace engine {

// The format in which a model trains or serves: the format of its matrix products. The fp8, mxfp8
// and nvfp4 recipes keep weights and activations in bf16 outside the products.
enum class Precision : uint8_t { f32, fp16, bf16, fp8, mxfp8, nvfp4 };

constexpr std::array<std::string_view, 6> kPrecisionNames = {"f32", "fp16",  "bf16",
                                                             "fp8", "mxfp8", "nvfp4"};
constexpr std::string_view name_of(Precision precision) {
  return kPrecisionNames[static_cast<size_t>(precision)];
}

// Bytes of one stored activation or working weight outside the matrix products.
constexpr int storage_bytes(Precision precision) { return precision == Precision::f32 ? 4 : 2; }

}  // namespace engine
