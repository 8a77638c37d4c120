// Outcome: what a plan costs in time and memory, predicted by the tuner or measured by the engine.
// Both fill the same record, so that they can be compared term by term.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/serving.h"

namespace engine {

// What memory is used for. The names stand in JSON as "<name>_bytes" and in reports.
enum class MemoryUse : uint8_t {
  parameter,
  gradient,
  optimizer,
  activation,  // saved for the backward pass
  recompute,   // re-materialised while a layer is recomputed
  kv_cache,
  workspace,      // transient gradients of activations, logits, library scratch
  communication,  // buffers of collectives and gathers
  runtime,        // context, libraries, allocator overhead
};
constexpr int kMemoryUses = 9;
std::string_view name_of(MemoryUse use);

struct StageMemory {
  int stage = 0;
  double bytes[kMemoryUses] = {};

  double& operator[](MemoryUse use) { return bytes[static_cast<int>(use)]; }
  double operator[](MemoryUse use) const { return bytes[static_cast<int>(use)]; }
  double total() const;
};

struct MemoryOutcome {
  double peak_bytes = 0;  // of the fullest stage
  double capacity_bytes = 0;
  // Measured: the most that the system held for a rank, of a process of several their equal share.
  double resident_bytes = 0;
  std::vector<StageMemory> stages;
};

// A rule that a plan breaks.
struct Violation {
  std::string code;  // "AT0112"; see `autotune explain`
  std::string message;
  std::vector<std::string> nearest;  // legal values or plans near by, nearest first
};

// A bound with 90 % probability between low and high.
struct Interval {
  double low = 0;
  double high = 0;
};

// Messages and payload of one collective verb on one grid axis, of one rank and one step.
struct Traffic {
  std::string verb;  // all_reduce, all_gather, reduce_scatter, send, broadcast
  std::string axis;  // tp, cp, dp, pp, embedding
  int64_t messages = 0;
  int64_t payload_bytes = 0;
};

enum class OutcomeStatus : uint8_t {
  ok,
  out_of_memory,
  crashed,
  timed_out,
  rejected,     // by the scheduler or the environment
  bad_numbers,  // NaN or infinite loss
  interrupted,
};
std::string_view name_of(OutcomeStatus status);

struct Outcome {
  OutcomeStatus status = OutcomeStatus::ok;
  std::string reason;  // why the status is not ok
  bool measured = false;

  double step_seconds = 0;  // predicted, or the median of the samples
  Interval interval_seconds;
  std::vector<double> samples_seconds;  // measured steps after warm-up
  // Parts that sum to step_seconds, in the order of the report.
  std::vector<std::pair<std::string, double>> breakdown_seconds;

  double tokens_per_second_per_gpu = 0;
  double tflops_per_gpu = 0;  // model FLOPs, full attention square
  double mfu = 0;             // of the datasheet peak

  MemoryOutcome memory;
  bool fits = false;
  std::vector<Violation> violations;

  // Of a measured step only.
  double matmul_flops_per_rank = 0;
  std::vector<Traffic> traffic;
  std::optional<double> loss;           // absent for phantom ranks
  std::optional<double> gradient_norm;  // absent for phantom ranks
  // Of a serving job, whose samples are the latencies of its steps.
  std::optional<ServingOutcome> serving = {};
};

// The record `autotune.estimate/1`, without the schema member.
nlohmann::json outcome_to_json(const Outcome& outcome);
Outcome outcome_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
