// Confirmation: single ranks of a plan, run alone among phantoms: what was predicted of them and
// what the engine counted.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/precision.h"
#include "tuner/model/serve_plan.h"

namespace tuner {

using AnyPlan = std::variant<engine::ParallelPlan, ServePlan>;  // of training, of serving
std::string text_of(const AnyPlan& plan);

struct ConfirmedCount {
  enum class Unit : uint8_t { bytes, flops, messages };
  std::string what;  // "parameter memory", "tp all_gather"
  Unit unit = Unit::bytes;
  double predicted = 0, metered = 0;
};

struct ConfirmedStage {
  int stage = 0;
  std::string place;  // "first", "middle", "last", "only"
  int64_t rank = 0;
  engine::OutcomeStatus status = engine::OutcomeStatus::ok;
  std::string reason;            // why the status is not ok
  std::vector<int64_t> trials;   // in the store
  double measured_seconds = 0;   // of a step of the slice
  double predicted_seconds = 0;  // what the cluster's device computes of it
  double predicted_bytes = 0, peak_bytes = 0;
  std::vector<ConfirmedCount> counts;  // which must be equal
};

struct Confirmation {
  AnyPlan of;             // the plan
  int64_t of_layers = 0;  // of the model
  AnyPlan slice;          // what was run of it
  std::string slice_text;
  int64_t layers = 0;  // of the slice, all stages
  engine::Precision precision = engine::Precision::bf16;
  std::string device;         // that ran it
  bool times_count = false;   // it is the cluster's device
  double compute_factor = 1;  // measured over predicted; of the parts that a device computes
  std::vector<ConfirmedStage> stages;
  int new_trials = 0;
  double spent_seconds = 0;
  bool interrupted = false;

  bool is_complete() const;  // every stage ran
};

nlohmann::json confirmation_to_json(const Confirmation& confirmation);

}  // namespace tuner
