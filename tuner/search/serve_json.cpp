// JSON of serving answers.
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/search/serve_explain.h"
#include "tuner/search/serve_recommendation.h"
#include "tuner/space/serve_rules.h"

namespace tuner {
namespace {

using engine::Json;

Json model_json(const engine::ModelSpec& model) {
  Json json;
  to_json(json, model);
  json["parameters"] = engine::parameter_count(model);
  return json;
}

Json stack_json(const ServeScenario& s) {
  return {{"name", s.stack.name},
          {"title", s.stack.title},
          {"release", s.stack.current().name},
          {"origin", s.stack.origin},
          {"memory_share", s.stack.memory_share},
          {"memory_error", s.stack.memory_error},
          {"rates_origin", s.rates_of(checkpoint_weights(s)).origin}};
}

Json workload_json(const ServeWorkload& work) {
  Json json = {{"input", work.input}, {"output", work.output}, {"arrival", name_of(work.arrival)}};
  if (work.arrival == Arrival::closed_loop) {
    json["concurrency"] = work.concurrency;
    json["requests_per_client"] = work.waves;
  }
  if (work.arrival == Arrival::poisson) json["requests_per_second"] = work.requests_per_second;
  return json;
}

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json budgets_json(const ServeBudgets& budgets) {
  return {{"latency_seconds", optional_json(budgets.latency_seconds)},
          {"ttft_seconds", optional_json(budgets.ttft_seconds)},
          {"tpot_seconds", optional_json(budgets.tpot_seconds)},
          {"tokens_per_second", optional_json(budgets.tokens_per_second)},
          {"statistic", kStatisticNames[static_cast<size_t>(budgets.statistic)]}};
}

Json interval_json(const engine::Interval& interval) {
  return Json::array({interval.low, interval.high});
}

Json percentiles_json(const std::optional<Percentiles>& p) {
  if (!p) return nullptr;
  return {{"p50", p->p50}, {"p90", p->p90}, {"p99", p->p99}};
}

Json parts_json(const ServeParts& parts) {
  Json json = Json::object();
  for (size_t i = 0; i < kServePartNames.size(); ++i)
    json[std::string(kServePartNames[i])] = parts.seconds[i];
  return json;
}

Json memory_json(const ServePrediction& p) {
  const ServeMemory& memory = p.memory;
  return {
      {"peak_bytes", memory.peak_bytes()},           {"capacity_bytes", memory.capacity_bytes},
      {"weight_bytes", memory.weight_bytes},         {"kv_bytes", memory.kv_bytes},
      {"activation_bytes", memory.activation_bytes}, {"runtime_bytes", memory.runtime_bytes},
      {"headroom_bytes", memory.headroom_bytes},     {"kv_token_capacity", p.kv_token_capacity}};
}

Json predicted_json(const ServeCandidate& c, const ServeBudgets& budgets, double price) {
  const ServePrediction& p = c.predicted;
  return {{"latency_seconds", p.latency_seconds},
          {"ttft_seconds", p.ttft_seconds},
          {"tpot_seconds", p.tpot_seconds},
          {"tokens_per_second", p.tokens_per_second},
          {"tokens_per_second_per_gpu", p.tokens_per_second_per_gpu},
          {"requests_per_second", p.requests_per_second},
          {"running_sequences", p.running},
          {"sustained", p.sustained},
          {"latency_interval_seconds", interval_json(p.latency_interval)},
          {"ttft_interval_seconds", interval_json(p.ttft_interval)},
          {"tpot_interval_seconds", interval_json(p.tpot_interval)},
          {"tokens_per_second_interval", interval_json(p.throughput_interval)},
          {"latency_percentiles_seconds", percentiles_json(p.latency)},
          {"ttft_percentiles_seconds", percentiles_json(p.ttft)},
          {"tpot_percentiles_seconds", percentiles_json(p.tpot)},
          {"breakdown_seconds",
           {{"prefill", parts_json(p.prefill)},
            {"decode", parts_json(p.decode)},
            {"waiting", p.waiting_seconds}}},
          {"limit", name_of(p.limit)},
          {"memory", memory_json(p)},
          {"fits", p.fits},
          {"meets_budget", p.fits && c.meets()},
          {"probability_of_meeting_budget", probability_of_meeting(budgets, p)},
          {"cost_per_million_tokens",
           price > 0 ? Json(cost_per_million_tokens(c, price)) : Json(nullptr)}};
}

Json measured_json(const ServeCandidate& c) {
  if (!c.measured) return nullptr;
  Json json = engine::outcome_to_json(*c.measured);
  if (!c.is_timed()) return json;
  const engine::ServingOutcome& serving = *c.measured->serving;
  json["latency_seconds"] = c.measured->step_seconds;
  json["ttft_seconds"] = serving.ttft_seconds.p50;
  json["tpot_seconds"] = serving.tpot_seconds.p50;
  json["tokens_per_second"] = serving.tokens_per_second;
  json["sustained"] = c.carries_load();
  json["meets_budget"] = c.meets();
  return json;
}

Json measurement_json(const std::optional<ServeMeasureAccount>& account) {
  if (!account) return nullptr;
  return {{"plans", account->race.order.size()},
          {"new_trials", account->race.new_trials},
          {"spent_seconds", account->race.spent_seconds},
          {"budget_ended", account->race.budget_ended},
          {"correction", account->correction}};
}

Json candidate_json(const ServeCandidate& c, const ServeBudgets& budgets, double price) {
  return {{"plan", serve_plan_to_json(c.plan)},
          {"text", describe(c.plan)},
          {"predicted", predicted_json(c, budgets, price)},
          {"measured", measured_json(c)}};
}

Json optional_candidate(const std::optional<ServeCandidate>& c, const ServeBudgets& budgets,
                        double price) {
  return c ? candidate_json(*c, budgets, price) : Json(nullptr);
}

Json price_json(double price) { return price > 0 ? Json(price) : Json(nullptr); }

}  // namespace

Json serve_recommendation_to_json(const ServeRecommendation& r) {
  const auto one = [&](const ServeCandidate& c) {
    return candidate_json(c, r.budgets, r.gpu_hour_price);
  };
  Json runners_up = Json::array();
  for (const ServeRunnerUp& other : r.runners_up) {
    Json json = one(other.candidate);
    json["throughput"] = other.throughput;
    json["latency"] = other.latency;
    json["difference"] = other.difference;
    runners_up.push_back(std::move(json));
  }
  Json frontier = Json::array();
  for (const ServeCandidate& point : r.search.frontier) frontier.push_back(one(point));
  Json smallest = optional_candidate(r.search.smallest, r.budgets, r.gpu_hour_price);
  if (r.search.smallest) smallest["gpus"] = r.search.smallest->plan.gpus();
  return {{"schema", "autotune.infer/1"},
          {"model", model_json(r.scenario.model)},
          {"cluster", cluster_to_json(r.scenario.cluster)},
          {"stack", stack_json(r.scenario)},
          {"workload", workload_json(r.scenario.workload)},
          {"budgets", budgets_json(r.budgets)},
          {"gpu_hour_price", price_json(r.gpu_hour_price)},
          {"search",
           {{"candidates", r.search.candidates},
            {"legal", r.search.legal},
            {"fits", r.search.fits},
            {"meets", r.search.meets},
            {"seconds", r.search.seconds}}},
          {"measurement", measurement_json(r.measurement)},
          {"confirmation", r.confirmation ? confirmation_to_json(*r.confirmation) : Json(nullptr)},
          {"meets_budget", r.meets_budget()},
          {"best", optional_candidate(r.best, r.budgets, r.gpu_hour_price)},
          {"runners_up", std::move(runners_up)},
          {"frontier", std::move(frontier)},
          {"smallest", std::move(smallest)},
          {"reasons", r.reasons},
          {"remedies", r.remedies},
          {"hints", r.hints},
          {"assumptions", r.assumptions}};
}

Json serve_check_to_json(const ServeScenario& scenario, const ServeBudgets& budgets,
                         double gpu_hour_price, const ServeCheck& check,
                         const std::vector<std::string>& assumptions, bool with_nearest) {
  Json json = candidate_json(check.checked, budgets, gpu_hour_price);
  json["schema"] = with_nearest ? "autotune.check_infer/1" : "autotune.estimate_infer/1";
  json["model"] = model_json(scenario.model);
  json["cluster"] = cluster_to_json(scenario.cluster);
  json["stack"] = stack_json(scenario);
  json["workload"] = workload_json(scenario.workload);
  json["budgets"] = budgets_json(budgets);
  json["gpu_hour_price"] = price_json(gpu_hour_price);
  json["assumptions"] = assumptions;
  Json violations = Json::array();
  for (const engine::Violation& v : check.violations)
    violations.push_back({{"code", v.code}, {"message", v.message}, {"nearest", v.nearest}});
  json["violations"] = std::move(violations);
  const bool predicted = check.checked.predicted.latency_seconds > 0;
  json["fits"] = predicted && check.checked.predicted.fits;
  if (!predicted) json["predicted"] = nullptr;  // the plan breaks a rule
  if (!with_nearest) return json;
  json["legal"] = check.violations.empty();
  Json nearest = Json::array();
  for (const ServeCandidate& near : check.nearest) {
    Json one = candidate_json(near, budgets, gpu_hour_price);
    one["difference"] = difference(check.checked.plan, near.plan);
    nearest.push_back(std::move(one));
  }
  json["nearest_plans"] = std::move(nearest);
  return json;
}

}  // namespace tuner
