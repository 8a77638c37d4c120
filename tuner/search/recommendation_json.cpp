// JSON of recommendations and estimates.
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/search/answer_json.h"
#include "tuner/search/confirmation.h"
#include "tuner/search/explain.h"
#include "tuner/search/recommendation.h"

namespace tuner {
using engine::Json;

namespace {

Json model_json(const engine::ModelSpec& model) {
  Json json;
  to_json(json, model);
  json["parameters"] = engine::parameter_count(model);
  return json;
}

Json stack_json(const Scenario& scenario) {
  return {{"name", scenario.stack.name},
          {"title", scenario.stack.title},
          {"origin", scenario.stack.origin},
          {"vocab_multiple", scenario.stack.vocab_multiple},
          {"memory_error", scenario.stack.memory_error},
          {"residual_sigma", scenario.rates.residual_sigma},
          {"residual_correlation", scenario.rates.residual_correlation},
          {"rates_origin", scenario.rates.origin}};
}

}  // namespace

void add_question(Json& json, const Scenario& scenario) {
  json["model"] = model_json(scenario.model);
  json["cluster"] = cluster_to_json(scenario.cluster);
  json["stack"] = stack_json(scenario);
  json["workload"] = engine::workload_to_json(scenario.workload);
}

void add_answer(Json& json, const Scenario& scenario, const PlanAnswer& answer) {
  json["plan"] = engine::plan_to_json(answer.plan, scenario.model.layers);
  json["text"] = engine::describe(answer.plan);
  json["predicted"] = engine::outcome_to_json(answer.predicted);
  json["measured"] = answer.measured ? engine::outcome_to_json(*answer.measured) : Json(nullptr);
}

Json answer_json(const Scenario& scenario, const std::optional<PlanAnswer>& answer) {
  if (!answer) return nullptr;
  Json json;
  add_answer(json, scenario, *answer);
  return json;
}

namespace {

Json runner_up_json(const Scenario& scenario, const RunnerUp& runner_up) {
  Json json;
  add_answer(json, scenario, runner_up.answer);
  json["slower"] = runner_up.slower;
  json["probability_faster"] = runner_up.probability_faster;
  json["difference"] = runner_up.difference;
  return json;
}

// The passes of the best plan's pipeline, a list of stages for every chunk.
Json pipeline_json(const Recommendation& r) {
  if (!r.pipeline) return nullptr;
  const PipelineTimes& times = *r.pipeline;
  Json forward = Json::array(), backward = Json::array();
  for (int chunk = 0; chunk < times.chunks(); ++chunk) {
    std::vector<double> ahead, back;
    for (int stage = 0; stage < times.stages(); ++stage) {
      ahead.push_back(times.forward(stage, chunk));
      back.push_back(times.backward(stage, chunk));
    }
    forward.push_back(std::move(ahead));
    backward.push_back(std::move(back));
  }
  return {{"micro_batches", r.best->plan.micro_batches()},
          {"forward_seconds", std::move(forward)},
          {"backward_seconds", std::move(backward)}};
}

// All plans that fit, thinned: columns of equal length.
Json fitting_json(const SearchResult& search) {
  std::vector<double> seconds, bytes;
  std::vector<int64_t> plans;
  std::vector<std::string> text;
  for (const PlanCell& cell : search.cells) {
    seconds.push_back(cell.step_seconds);
    bytes.push_back(cell.peak_bytes);
    plans.push_back(cell.plans);
    text.push_back(engine::describe(cell.plan));
  }
  return {{"memory_width", search.cell_width.memory},
          {"time_width", search.cell_width.time},
          {"step_seconds", std::move(seconds)},
          {"peak_bytes", std::move(bytes)},
          {"plans", std::move(plans)},
          {"text", std::move(text)}};
}

Json search_json(const Recommendation& r) {
  const SearchResult& search = r.search;
  return {{"candidates", search.counts.candidates},
          {"legal", search.counts.legal},
          {"fits", search.fits},
          {"simulated", r.simulated},
          {"seconds", search.seconds},
          {"rejected", search.counts.rejected}};
}

Json grid_json(const Scenario& scenario, const GridComparison& grid) {
  return {{"name", grid.name},   {"origin", grid.origin},
          {"plans", grid.plans}, {"legal", grid.legal},
          {"fits", grid.fits},   {"best", answer_json(scenario, grid.best)}};
}

Json measurement_json(const Recommendation& r) {
  if (!r.measurement) return nullptr;
  const MeasureAccount& account = *r.measurement;
  Json plans = Json::array();
  for (const PlanMeasurement& one : account.plans) {
    const engine::Outcome& outcome = one.outcome;
    plans.push_back(
        {{"plan", engine::plan_to_json(one.plan, r.scenario.model.layers)},
         {"text", engine::describe(one.plan)},
         {"predicted_seconds", one.predicted_seconds},
         {"measured_seconds", outcome.step_seconds},
         {"interval_seconds", {outcome.interval_seconds.low, outcome.interval_seconds.high}},
         {"samples", outcome.samples_seconds.size()},
         {"predicted_bytes", one.predicted_bytes},
         {"peak_bytes", outcome.memory.peak_bytes},
         {"resident_bytes", outcome.memory.resident_bytes},
         {"status", name_of(outcome.status)},
         {"reason", outcome.reason},
         {"trials", one.trials},
         {"recalled", one.recalled}});
  }
  return {{"plans", std::move(plans)},
          {"environment", account.environment},
          {"new_trials", account.race.new_trials},
          {"spent_seconds", account.race.spent_seconds},
          {"budget_seconds", account.budget_seconds},
          {"budget_ended", account.race.budget_ended},
          {"interrupted", account.race.interrupted},
          {"correction", account.correction}};
}

}  // namespace

Json recommendation_to_json(const Recommendation& r) {
  Json runners_up = Json::array();
  for (const RunnerUp& runner_up : r.runners_up)
    runners_up.push_back(runner_up_json(r.scenario, runner_up));
  const bool found = r.best.has_value();
  const double speedup = r.speedup_over_baseline();
  Json json = {
      {"schema", "autotune.train/1"},
      {"search", search_json(r)},
      {"best", answer_json(r.scenario, r.best)},
      {"runners_up", std::move(runners_up)},
      {"baseline", answer_json(r.scenario, r.baseline)},
      {"speedup_over_baseline", speedup > 0 ? Json(speedup) : Json(nullptr)},
      {"days_to_train", found ? Json(r.days_to_train()) : Json(nullptr)},
      {"price_per_gpu_hour", r.gpu_hour_price > 0 ? Json(r.gpu_hour_price) : Json(nullptr)},
      {"cost", found && r.gpu_hour_price > 0
                   ? Json(r.gpu_hour_price * r.days_to_train() * 24 * r.scenario.cluster.gpus)
                   : Json(nullptr)},
      {"grid", grid_json(r.scenario, r.grid)},
      {"pipeline", pipeline_json(r)},
      {"fitting", fitting_json(r.search)},
      {"measurement", measurement_json(r)},
      {"confirmation", r.confirmation ? confirmation_to_json(*r.confirmation) : Json()},
      {"reasons", r.reasons},
      {"remedies", r.remedies},
      {"assumptions", r.assumptions}};
  add_question(json, r.scenario);
  return json;
}

Json estimate_to_json(const Scenario& scenario, const PlanAnswer& answer) {
  Json json = engine::outcome_to_json(answer.predicted);
  json["schema"] = "autotune.estimate/1";
  add_question(json, scenario);
  // A list of layers that places other layers than the model's has no full form.
  json["text"] = engine::describe(answer.plan);
  json["plan"] = answer.predicted.violations.empty()
                     ? engine::plan_to_json(answer.plan, scenario.model.layers)
                     : Json(nullptr);
  return json;
}

Json check_to_json(const Scenario& scenario, const CheckAnswer& answer) {
  Json json = estimate_to_json(scenario, answer.checked);
  json["schema"] = "autotune.check/1";
  json["legal"] = answer.checked.predicted.violations.empty();
  Json nearest = Json::array();
  for (const PlanAnswer& near : answer.nearest) {
    Json row;
    add_answer(row, scenario, near);
    row["difference"] = difference(answer.checked.plan, near.plan);
    nearest.push_back(std::move(row));
  }
  json["nearest_plans"] = std::move(nearest);
  return json;
}

}  // namespace tuner
