// Serving answers read back from their JSON, for rendering.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/model/serve_plan.h"
#include "tuner/report/answer.h"

namespace tuner {

// A quantity with its 90 % interval and percentiles; zeros where they are not known.
struct ServeQuantity {
  double value = 0;
  engine::Interval interval;
  std::vector<std::pair<std::string, double>> percentiles;  // "p50", "p90", "p99"
};

// What trials of a plan showed.
struct ServeMeasuredRecord {
  double latency = 0, ttft = 0, tpot = 0, tokens_per_second = 0;
  double peak_bytes = 0;
  int64_t samples = 0;
  bool sustained = true, meets = false;
};

struct ServeRecord {
  ServePlan plan;
  std::string text;  // the plan in words
  bool predicted = false;
  ServeQuantity latency, ttft, tpot, throughput;
  double per_gpu = 0;  // tokens/s
  double requests_per_second = 0, running = 0;
  bool sustained = true, fits = false, meets = true;
  double probability = 1;      // of meeting the budgets
  std::optional<double> cost;  // of a million tokens
  std::string limit;
  // Parts of the latency, by what the time is spent on.
  std::vector<std::pair<std::string, double>> prefill, decode;
  double waiting = 0;
  std::vector<std::pair<std::string, double>> memory;  // bytes by use
  double peak_bytes = 0, headroom_bytes = 0, capacity_bytes = 0, kv_token_capacity = 0;
  std::optional<ServeMeasuredRecord> measured = {};
};

struct ServeRunnerUpRecord {
  ServeRecord record;
  double throughput = 0, latency = 0;
  std::string difference;
};

// What was asked beyond the model, the machines and the stack.
struct ServeQuestionRecord {
  Question common;
  std::string release;
  int64_t input = 0, output = 0;
  std::string arrival;
  double concurrency = 0, rate = 0;
  std::optional<double> latency, ttft, tpot, tokens_per_second;
  std::string statistic;
};

struct InferAnswer {
  ServeQuestionRecord question;
  int64_t candidates = 0, legal = 0, fits = 0, meets = 0;
  double seconds = 0;
  bool meets_budget = false;
  // Trials, where any were asked for.
  std::optional<int64_t> new_trials = {};
  double spent_seconds = 0, correction = 1;
  std::optional<ConfirmationRecord> confirmation = {};
  std::optional<ServeRecord> best, smallest;
  std::vector<ServeRunnerUpRecord> runners_up;
  std::vector<ServeRecord> frontier;
  std::vector<std::string> reasons, remedies, hints, assumptions;
};

// Of estimate infer and check infer.
struct ServeEstimateAnswer {
  std::string verb;  // "autotune estimate infer"
  ServeQuestionRecord question;
  ServeRecord record;
  std::vector<engine::Violation> violations;
  std::vector<ServeRunnerUpRecord> nearest;
  std::vector<std::string> assumptions;
};

// Both throw InputError with every problem of the JSON.
InferAnswer read_infer_answer(const nlohmann::json& answer);
ServeEstimateAnswer read_serve_estimate_answer(const nlohmann::json& answer);

}  // namespace tuner
