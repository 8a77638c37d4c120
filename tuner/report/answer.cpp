// Reading of answers: lenient where a member is absent, strict where it is wrong.
#include "tuner/report/answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace tuner {
namespace {

using engine::Json;
using engine::ObjectReader;
using engine::Problems;

constexpr auto kSource = "the stored answer";

void read_machines(ObjectReader cluster, Question& question) {
  question.gpus = cluster.integer("gpus", {}, 0);
  question.system = cluster.text("system", "");
  question.cluster_origin = cluster.text("origin", "");
  ObjectReader device = cluster.object("device");
  question.gpu = device.text("name", "");
  question.gpu_title = device.text("title", question.gpu);
  question.memory_bytes = device.number("memory_bytes", {}, 0.0);
  ObjectReader links = cluster.object("interconnect");
  question.gpus_per_node = links.integer("gpus_per_node", {}, 0);
}

std::optional<engine::Outcome> read_outcome(ObjectReader& reader, const std::string& key) {
  const Json& value = reader.value(key);
  if (value.is_null()) return std::nullopt;
  return engine::outcome_from_json(value, kSource);
}

// The plan and its words; the outcomes are the caller's.
PlanRecord read_plan(ObjectReader& reader) {
  PlanRecord record;
  record.text = reader.text("text", "");
  if (const Json& plan = reader.value("plan"); !plan.is_null()) {
    record.plan = engine::plan_from_json(plan, kSource);
    ObjectReader members = reader.object("plan");
    record.layers_per_stage = members.integers("layers_per_stage", {0, 1 << 20});
    if (record.text.empty()) record.text = engine::describe(*record.plan);
  }
  return record;
}

PlanRecord read_record(ObjectReader reader) {
  PlanRecord record = read_plan(reader);
  record.predicted = read_outcome(reader, "predicted");
  record.measured = read_outcome(reader, "measured");
  return record;
}

std::optional<PlanRecord> read_optional_record(ObjectReader& answer, const std::string& key) {
  if (answer.value(key).is_null()) return std::nullopt;
  return read_record(answer.object(key));
}

RunnerUpRecord read_runner_up(ObjectReader reader) {
  RunnerUpRecord runner_up{read_record(reader), 0, std::nullopt, reader.text("difference", "")};
  runner_up.slower = reader.number("slower", {-1, 1e300}, 0.0);
  if (reader.has("probability_faster"))
    runner_up.probability_faster = reader.number("probability_faster", {0, 1});
  return runner_up;
}

SearchRecord read_search(ObjectReader reader) {
  SearchRecord search;
  search.candidates = reader.integer("candidates", {}, 0);
  search.legal = reader.integer("legal", {}, 0);
  search.fits = reader.integer("fits", {}, 0);
  search.simulated = reader.integer("simulated", {}, 0);
  search.seconds = reader.number("seconds", {}, 0.0);
  ObjectReader rejected = reader.object("rejected");
  for (const std::string& code : rejected.keys())
    search.rejected[code] = rejected.integer(code, {}, 0);
  return search;
}

RangeRecord read_range(ObjectReader& reader, const std::string& key) {
  const Json& ends = reader.value(key);
  if (ends.is_null()) return {};
  const auto is_end = [](const Json& end) { return end.is_null() || end.is_number(); };
  if (!ends.is_array() || ends.size() != 2 || !is_end(ends[0]) || !is_end(ends[1])) {
    reader.problem(key, "must be two numbers");
    return {};
  }
  const auto end = [](const Json& value) { return value.is_null() ? 0 : value.get<double>(); };
  return {end(ends[0]), end(ends[1])};
}

std::optional<GridRecord> read_grid(ObjectReader& answer) {
  if (answer.value("grid").is_null()) return std::nullopt;
  ObjectReader reader = answer.object("grid");
  GridRecord grid;
  grid.name = reader.text("name", "");
  grid.plans = reader.integer("plans", {}, 0);
  grid.legal = reader.integer("legal", {}, 0);
  grid.fits = reader.integer("fits", {}, 0);
  grid.best = read_optional_record(reader, "best");
  return grid;
}

engine::Interval read_interval(ObjectReader& reader, const std::string& key) {
  const RangeRecord range = read_range(reader, key);
  return {range.low, range.high};
}

template <class Value>
std::vector<Value> read_list(ObjectReader& reader, const std::string& key) {
  const Json& list = reader.value(key);
  if (list.is_null()) return {};
  try {
    return list.get<std::vector<Value>>();
  } catch (const Json::exception&) {
    reader.problem(key, "must be a list of values of one kind");
    return {};
  }
}

FittingRecord read_fitting(ObjectReader& answer) {
  FittingRecord fitting;
  if (answer.value("fitting").is_null()) return fitting;
  ObjectReader reader = answer.object("fitting");
  fitting.memory_width = reader.number("memory_width", {}, 0.0);
  fitting.time_width = reader.number("time_width", {}, 0.0);
  const auto seconds = read_list<double>(reader, "step_seconds");
  const auto bytes = read_list<double>(reader, "peak_bytes");
  const auto plans = read_list<int64_t>(reader, "plans");
  const auto text = read_list<std::string>(reader, "text");
  if (bytes.size() != seconds.size() || plans.size() != seconds.size() ||
      text.size() != seconds.size()) {
    reader.problem("step_seconds", "must be as long as the other columns");
    return fitting;
  }
  for (size_t i = 0; i < seconds.size(); ++i)
    if (seconds[i] > 0) fitting.plans.push_back({text[i], seconds[i], bytes[i], plans[i]});
  return fitting;
}

std::optional<PipelineRecord> read_pipeline(ObjectReader& answer) {
  if (answer.value("pipeline").is_null()) return std::nullopt;
  ObjectReader reader = answer.object("pipeline");
  PipelineRecord pipeline;
  pipeline.micro_batches = reader.integer("micro_batches", {1, 1'000'000'000});
  pipeline.forward = read_list<std::vector<double>>(reader, "forward_seconds");
  pipeline.backward = read_list<std::vector<double>>(reader, "backward_seconds");
  const auto same_size = [&](const auto& stages) {
    return !stages.empty() && stages.size() == pipeline.forward.front().size();
  };
  const bool whole = !pipeline.forward.empty() &&
                     pipeline.forward.size() == pipeline.backward.size() &&
                     std::all_of(pipeline.forward.begin(), pipeline.forward.end(), same_size) &&
                     std::all_of(pipeline.backward.begin(), pipeline.backward.end(), same_size);
  if (!whole) reader.problem("forward_seconds", "must hold as many stages for every chunk");
  return pipeline;
}

std::optional<MeasurementRecord> read_measurement(ObjectReader& answer) {
  if (answer.value("measurement").is_null()) return std::nullopt;
  ObjectReader reader = answer.object("measurement");
  MeasurementRecord measurement;
  measurement.new_trials = reader.integer("new_trials", {}, 0);
  measurement.spent_seconds = reader.number("spent_seconds", {}, 0.0);
  measurement.correction = reader.number("correction", {}, 1.0);
  for (ObjectReader& plan : reader.objects("plans"))
    measurement.plans.push_back({plan.text("text", ""), plan.number("predicted_seconds", {}, 0.0),
                                 plan.number("measured_seconds", {}, 0.0),
                                 read_interval(plan, "interval_seconds"),
                                 plan.integer("samples", {}, 0), plan.number("peak_bytes", {}, 0.0),
                                 plan.text("status", ""), plan.text("reason", "")});
  return measurement;
}

}  // namespace

std::vector<std::string> read_texts(ObjectReader& reader, const std::string& key) {
  const Json& list = reader.value(key);
  std::vector<std::string> sentences;
  if (list.is_array())
    for (const Json& entry : list)
      if (entry.is_string()) sentences.push_back(entry.get<std::string>());
  if (!list.is_null() && (!list.is_array() || sentences.size() != list.size()))
    reader.problem(key, "must be a list of texts");
  return sentences;
}

Question read_common_question(ObjectReader& answer) {
  Question question;
  ObjectReader model = answer.object("model");
  question.model = model.text("name", "");
  question.model_origin = model.text("origin", "");
  question.parameters = model.number("parameters", {}, 0.0);
  question.vocab = model.integer("vocab", {}, 0);
  read_machines(answer.object("cluster"), question);
  ObjectReader stack = answer.object("stack");
  question.stack = stack.text("name", "");
  question.stack_origin = stack.text("origin", "");
  question.rates_origin = stack.text("rates_origin", "");
  question.memory_error = stack.number("memory_error", {}, 0.0);
  question.residual_sigma = stack.number("residual_sigma", {}, 0.0);
  question.residual_correlation = stack.number("residual_correlation", {0, 1}, 0.0);
  question.vocab_multiple = stack.integer("vocab_multiple", {0, 1 << 20}, 0);
  ObjectReader workload = answer.object("workload");
  question.seq = workload.integer("seq", {}, 0);
  question.gbs = workload.integer("gbs", {}, 0);
  question.tokens = workload.number("tokens", {}, 0.0);
  question.precision = workload.text("precision", "");
  question.attention = workload.text("attention", "");
  return question;
}

const engine::Outcome* PlanRecord::outcome() const {
  if (measured && measured->status == engine::OutcomeStatus::ok) return &*measured;
  return predicted ? &*predicted : nullptr;
}

int64_t TrainAnswer::measured() const {
  if (measurement) return static_cast<int64_t>(measurement->plans.size());
  return (best && best->measured ? 1 : 0) +
         std::count_if(runners_up.begin(), runners_up.end(), [](const RunnerUpRecord& runner_up) {
           return runner_up.record.measured.has_value();
         });
}

TrainAnswer read_train_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  TrainAnswer answer;
  answer.question = read_common_question(reader);
  answer.search = read_search(reader.object("search"));
  answer.best = read_optional_record(reader, "best");
  for (const ObjectReader& runner_up : reader.objects("runners_up"))
    answer.runners_up.push_back(read_runner_up(runner_up));
  answer.knows_baseline = json.contains("baseline");
  answer.baseline = read_optional_record(reader, "baseline");
  answer.speedup = reader.number("speedup_over_baseline", {}, 0.0);
  answer.days = reader.number("days_to_train", {}, 0.0);
  answer.cost = reader.number("cost", {}, 0.0);
  answer.price = reader.number("price_per_gpu_hour", {}, 0.0);
  answer.grid = read_grid(reader);
  answer.measurement = read_measurement(reader);
  if (reader.has("confirmation"))
    answer.confirmation = read_confirmation(reader.object("confirmation"));
  answer.compared = read_optional_record(reader, "compared");
  if (answer.compared) answer.compared_file = reader.object("compared").text("file", "the file");
  answer.fitting = read_fitting(reader);
  answer.pipeline = read_pipeline(reader);
  answer.reasons = read_texts(reader, "reasons");
  answer.remedies = read_texts(reader, "remedies");
  answer.assumptions = read_texts(reader, "assumptions");
  problems.throw_if_any();
  return answer;
}

EstimateAnswer read_estimate_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  EstimateAnswer answer;
  answer.question = read_common_question(reader);
  answer.record = read_plan(reader);
  answer.record.predicted = engine::outcome_from_json(json, kSource);
  problems.throw_if_any();
  return answer;
}

EstimateAnswer read_check_answer(const Json& json) {
  EstimateAnswer answer = read_estimate_answer(json);
  answer.check = true;
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  for (const ObjectReader& near : reader.objects("nearest_plans"))
    answer.nearest.push_back(read_runner_up(near));
  problems.throw_if_any();
  return answer;
}

SweepAnswer read_sweep_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  SweepAnswer answer;
  answer.question = read_common_question(reader);
  answer.price = reader.number("price_per_gpu_hour", {}, 0.0);
  for (ObjectReader& point : reader.objects("points")) {
    SweepPointRecord record;
    record.gpus = point.integer("gpus", {}, 0);
    record.best = read_optional_record(point, "best");
    record.days = point.number("days_to_train", {}, 0.0);
    record.gpu_hours = point.number("gpu_hours", {}, 0.0);
    record.cost = point.number("cost", {}, 0.0);
    record.tokens_per_second = point.number("tokens_per_second", {}, 0.0);
    record.efficiency = point.number("scaling_efficiency", {}, 0.0);
    record.remedies = read_texts(point, "remedies");
    answer.points.push_back(std::move(record));
  }
  answer.reasons = read_texts(reader, "reasons");
  answer.assumptions = read_texts(reader, "assumptions");
  problems.throw_if_any();
  return answer;
}

SizeAnswer read_size_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  SizeAnswer answer;
  answer.question = read_common_question(reader);
  answer.asked = reader.text("asked", "");
  if (reader.has("deadline_days")) answer.deadline_days = reader.number("deadline_days", {});
  answer.meets_deadline = reader.flag("meets_deadline", false);
  answer.days = reader.number("days", {}, 0.0);
  answer.gpu_hours = reader.number("gpu_hours", {}, 0.0);
  answer.cost = reader.number("cost", {}, 0.0);
  answer.price = reader.number("price_per_gpu_hour", {}, 0.0);
  answer.days_range = read_range(reader, "interval_days");
  answer.gpu_hours_range = read_range(reader, "interval_gpu_hours");
  answer.cost_range = read_range(reader, "interval_cost");
  answer.gpus_range = read_range(reader, "interval_gpus");
  answer.parameters_range = read_range(reader, "interval_parameters");
  ObjectReader optimum = reader.object("compute_optimal");
  answer.optimal_tokens_per_parameter = optimum.number("tokens_per_parameter", {}, 0.0);
  answer.optimal_tokens = optimum.number("tokens", {}, 0.0);
  answer.optimal_parameters = optimum.number("parameters", {}, 0.0);
  ObjectReader same = optimum.object("same_compute");
  answer.same_compute_tokens = same.number("tokens", {}, 0.0);
  answer.same_compute_parameters = same.number("parameters", {}, 0.0);
  answer.best = read_optional_record(reader, "best");
  answer.notes = read_texts(reader, "notes");
  answer.remedies = read_texts(reader, "remedies");
  answer.assumptions = read_texts(reader, "assumptions");
  problems.throw_if_any();
  return answer;
}

}  // namespace tuner
