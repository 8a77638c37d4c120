// Scenarios of tests: a model, a machine, a stack and a batch by their names.
#pragma once
#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/model/presets.h"
#include "tuner/model/rates.h"
#include "tuner/model/scenario.h"

namespace test_support {

struct Request {
  std::string model = "gpt3-175b";
  std::string gpu = "a100-80gb";
  int gpus = 1024;
  std::string stack = "megatron-2022";
  int64_t gbs = 1536;
  int64_t seq = 2048;
  std::optional<engine::Precision> precision =
      {};  // default: the first of bf16, fp16, f32 that runs
  std::optional<engine::AttentionKind> attention = {};  // default: the stack's
};

inline void PrintTo(const Request& request, std::ostream* out) {
  *out << request.model << " on " << request.gpus << " " << request.gpu << " by " << request.stack;
}

inline engine::Precision precision_of(const tuner::Scenario& scenario) {
  using engine::Precision;
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    if (scenario.cluster.device.peak(precision) > 0 &&
        std::ranges::count(scenario.stack.precisions, precision) > 0)
      return precision;
  return Precision::f32;
}

inline tuner::Scenario scenario_for(const Request& request) {
  static const tuner::RatesTable kRates = tuner::RatesTable::load();
  tuner::Scenario s;
  s.model = tuner::find_model(request.model);
  s.cluster = tuner::find_cluster(request.gpu, request.gpus);
  s.stack = tuner::find_stack(request.stack);
  s.workload.seq = request.seq;
  s.workload.gbs = request.gbs;
  s.workload.tokens = 300e9;
  s.workload.precision = request.precision.value_or(precision_of(s));
  s.workload.attention = request.attention.value_or(s.stack.default_attention());
  s.rates = kRates.resolve(s.cluster, s.stack, s.workload.precision);
  return s;
}

// A GPT of `layers` layers; heads of 64, four times as wide in the MLP, vocabulary 51,200.
inline engine::ModelSpec gpt(int64_t layers, int64_t hidden, int64_t heads) {
  engine::ModelSpec model;
  model.name = "gpt-of-a-test";
  model.layers = layers;
  model.hidden = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden = 4 * hidden;
  model.vocab = 51200;
  model.positions = 1 << 20;
  return model;
}

// What the violations of a plan are, without their messages.
inline std::vector<std::string> codes_of(const std::vector<engine::Violation>& violations) {
  std::vector<std::string> codes;
  for (const engine::Violation& violation : violations) codes.push_back(violation.code);
  return codes;
}

}  // namespace test_support
