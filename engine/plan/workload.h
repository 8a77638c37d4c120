// Workload: what is trained, apart from model and plan.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/precision.h"

namespace engine {

enum class AttentionKind : uint8_t { unfused, flash };
constexpr std::string_view name_of(AttentionKind kind) {
  return kind == AttentionKind::flash ? "flash" : "unfused";
}

struct Workload {
  int64_t seq = 2048;  // tokens a sequence
  int64_t gbs = 0;     // sequences a step
  double tokens = 0;   // of the whole training
  Precision precision = Precision::bf16;
  AttentionKind attention = AttentionKind::unfused;

  bool operator==(const Workload&) const = default;
};

nlohmann::json workload_to_json(const Workload& workload);
Workload workload_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
