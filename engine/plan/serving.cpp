// JSON of what is served and of how fast it was.
#include "engine/plan/serving.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {
namespace {

Json spread_to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"p50", spread.p50}, {"p90", spread.p90}, {"p99", spread.p99}};
}

Spread spread_from_json(ObjectReader reader) {
  Spread spread;
  spread.mean = reader.number("mean", {}, 0.0);
  spread.p50 = reader.number("p50", {}, 0.0);
  spread.p90 = reader.number("p90", {}, 0.0);
  spread.p99 = reader.number("p99", {}, 0.0);
  return spread;
}

}  // namespace

Json serving_to_json(const ServingSpec& spec) {
  return {{"batch", spec.batch},
          {"page_tokens", spec.page_tokens},
          {"kv_tokens", spec.kv_tokens},
          {"input", spec.input},
          {"output", spec.output},
          {"arrival", name_of(spec.arrival)},
          {"concurrency", spec.concurrency},
          {"requests_per_second", spec.requests_per_second},
          {"requests_path", spec.requests_path},
          {"evaluation", kEvaluationNames[static_cast<size_t>(spec.evaluation)]},
          {"stride", spec.stride},
          {"tokenizer", spec.tokenizer},
          {"prompt_files", spec.prompt_files}};
}

ServingSpec serving_from_json(const Json& json, const std::string& source) {
  constexpr int64_t kMost = int64_t{1} << 40;
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  ServingSpec spec;
  spec.batch = reader.integer("batch", {1, 1 << 24}, spec.batch);
  spec.page_tokens = reader.integer("page_tokens", {1, 64}, spec.page_tokens);
  spec.kv_tokens = reader.integer("kv_tokens", {0, kMost}, 0);
  spec.input = reader.integer("input", {0, kMost}, 0);
  spec.output = reader.integer("output", {0, kMost}, 0);
  spec.arrival = static_cast<Arrival>(
      reader.choice("arrival", {kArrivalNames.begin(), kArrivalNames.end()}, 1));
  spec.concurrency = reader.number("concurrency", {0, 1e9}, 0.0);
  spec.requests_per_second = reader.number("requests_per_second", {0, 1e9}, 0.0);
  spec.requests_path = reader.text("requests_path", "");
  spec.evaluation = static_cast<Evaluation>(
      reader.choice("evaluation", {kEvaluationNames.begin(), kEvaluationNames.end()}, 0));
  spec.stride = reader.integer("stride", {0, kMost}, 0);
  spec.tokenizer = reader.text("tokenizer", spec.tokenizer);
  if (const Json& files = reader.value("prompt_files"); files.is_array())
    for (const Json& file : files)
      if (file.is_string()) spec.prompt_files.push_back(file.get<std::string>());
  reader.finish();
  if (spec.is_trial() && (spec.input < 1 || spec.output < 1))
    reader.problem("input", "and output must be positive in a trial, or requests_path be given");
  if (spec.arrival == Arrival::closed_loop && spec.concurrency < 1)
    reader.problem("concurrency", "must be at least 1 in a closed loop");
  if (spec.arrival == Arrival::poisson && !(spec.requests_per_second > 0))
    reader.problem("requests_per_second", "must be positive for Poisson arrivals");
  problems.throw_if_any();
  return spec;
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double q) {
    const double place = q * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
  };
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  spread.p50 = quantile(0.5);
  spread.p90 = quantile(0.9);
  spread.p99 = quantile(0.99);
  return spread;
}

Json serving_outcome_to_json(const ServingOutcome& outcome) {
  Json json = {{"requests", outcome.requests},
               {"latency_seconds", spread_to_json(outcome.latency_seconds)},
               {"ttft_seconds", spread_to_json(outcome.ttft_seconds)},
               {"tpot_seconds", spread_to_json(outcome.tpot_seconds)},
               {"tokens_per_second", outcome.tokens_per_second}};
  if (outcome.scored_tokens == 0) return json;
  json["scored_tokens"] = outcome.scored_tokens;
  json["perplexity"] = std::isfinite(outcome.perplexity) ? Json(outcome.perplexity) : Json();
  json["examples"] = outcome.examples;
  json["accuracy"] = outcome.accuracy;
  return json;
}

ServingOutcome serving_outcome_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "serving", problems);
  ServingOutcome outcome;
  outcome.requests = reader.integer("requests", {});
  outcome.latency_seconds = spread_from_json(reader.object("latency_seconds"));
  outcome.ttft_seconds = spread_from_json(reader.object("ttft_seconds"));
  outcome.tpot_seconds = spread_from_json(reader.object("tpot_seconds"));
  outcome.tokens_per_second = reader.number("tokens_per_second", {});
  outcome.scored_tokens = reader.integer("scored_tokens", {}, 0);
  outcome.perplexity = reader.number("perplexity", {}, 0.0);
  outcome.examples = reader.integer("examples", {}, 0);
  outcome.accuracy = reader.number("accuracy", {0, 1}, 0.0);
  problems.throw_if_any();
  return outcome;
}

}  // namespace engine
