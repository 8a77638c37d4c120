// Reading of serving answers.
#include "tuner/report/serve_answer.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace tuner {
namespace {

using engine::Json;
using engine::ObjectReader;
using engine::Problems;

constexpr auto kSource = "the stored answer";

std::optional<double> optional_number(ObjectReader& reader, const std::string& key) {
  if (reader.value(key).is_null()) return std::nullopt;
  return reader.number(key, {});
}

ServeQuestionRecord read_question(ObjectReader& answer) {
  ServeQuestionRecord question;
  question.common = read_common_question(answer);
  question.release = answer.object("stack").text("release", "");
  ObjectReader workload = answer.object("workload");
  question.input = workload.integer("input", {}, 0);
  question.output = workload.integer("output", {}, 0);
  question.arrival = workload.text("arrival", "");
  question.concurrency = workload.number("concurrency", {}, 0.0);
  question.rate = workload.number("requests_per_second", {}, 0.0);
  ObjectReader budgets = answer.object("budgets");
  question.latency = optional_number(budgets, "latency_seconds");
  question.ttft = optional_number(budgets, "ttft_seconds");
  question.tpot = optional_number(budgets, "tpot_seconds");
  question.tokens_per_second = optional_number(budgets, "tokens_per_second");
  question.statistic = budgets.text("statistic", "mean");
  return question;
}

// "latency_seconds", "latency_interval_seconds", "latency_percentiles_seconds"
ServeQuantity read_quantity(ObjectReader& reader, const std::string& name) {
  ServeQuantity quantity;
  quantity.value = reader.number(name + "_seconds", {}, 0.0);
  const Json& interval = reader.value(name + "_interval_seconds");
  if (interval.is_array() && interval.size() == 2 && interval[0].is_number() &&
      interval[1].is_number())
    quantity.interval = {interval[0].get<double>(), interval[1].get<double>()};
  const std::string key = name + "_percentiles_seconds";
  if (reader.value(key).is_null()) return quantity;
  ObjectReader percentiles = reader.object(key);
  for (const std::string& share : percentiles.keys())
    quantity.percentiles.emplace_back(share, percentiles.number(share, {}));
  return quantity;
}

std::vector<std::pair<std::string, double>> read_parts(ObjectReader parts) {
  std::vector<std::pair<std::string, double>> list;
  for (const std::string_view name : {"weights", "kv", "compute", "communication", "overhead"})
    list.emplace_back(name, parts.number(std::string(name), {}, 0.0));
  return list;
}

void read_memory(ObjectReader memory, ServeRecord& record) {
  record.peak_bytes = memory.number("peak_bytes", {}, 0.0);
  record.headroom_bytes = memory.number("headroom_bytes", {}, 0.0);
  record.capacity_bytes = memory.number("capacity_bytes", {}, 0.0);
  record.kv_token_capacity = memory.number("kv_token_capacity", {}, 0.0);
  for (const char* use : {"weight", "kv", "activation", "runtime"})
    record.memory.emplace_back(use, memory.number(std::string(use) + "_bytes", {}, 0.0));
}

std::optional<ServeMeasuredRecord> read_measured(ObjectReader& reader) {
  if (reader.value("measured").is_null()) return std::nullopt;
  ObjectReader m = reader.object("measured");
  if (!m.has("latency_seconds")) return std::nullopt;  // the trial failed
  ServeMeasuredRecord measured;
  measured.latency = m.number("latency_seconds", {});
  measured.ttft = m.number("ttft_seconds", {}, 0.0);
  measured.tpot = m.number("tpot_seconds", {}, 0.0);
  measured.tokens_per_second = m.number("tokens_per_second", {}, 0.0);
  measured.peak_bytes = m.object("memory").number("peak_bytes", {}, 0.0);
  measured.samples = static_cast<int64_t>(m.value("samples_seconds").size());
  measured.sustained = m.flag("sustained", true);
  measured.meets = m.flag("meets_budget", false);
  return measured;
}

ServeRecord read_record(ObjectReader reader) {
  ServeRecord record;
  record.plan = serve_plan_from_json(reader.value("plan"), kSource);
  record.text = reader.text("text", describe(record.plan));
  if (reader.value("predicted").is_null()) return record;
  record.predicted = true;
  ObjectReader p = reader.object("predicted");
  record.latency = read_quantity(p, "latency");
  record.ttft = read_quantity(p, "ttft");
  record.tpot = read_quantity(p, "tpot");
  record.throughput.value = p.number("tokens_per_second", {}, 0.0);
  record.per_gpu = p.number("tokens_per_second_per_gpu", {}, 0.0);
  record.requests_per_second = p.number("requests_per_second", {}, 0.0);
  record.running = p.number("running_sequences", {}, 0.0);
  record.sustained = p.flag("sustained", true);
  record.fits = p.flag("fits", true);
  record.meets = p.flag("meets_budget", true);
  record.probability = p.number("probability_of_meeting_budget", {0, 1}, 1.0);
  record.cost = optional_number(p, "cost_per_million_tokens");
  record.limit = p.text("limit", "");
  ObjectReader parts = p.object("breakdown_seconds");
  record.prefill = read_parts(parts.object("prefill"));
  record.decode = read_parts(parts.object("decode"));
  record.waiting = parts.number("waiting", {-1e300, 1e300}, 0.0);
  read_memory(p.object("memory"), record);
  record.measured = read_measured(reader);
  return record;
}

std::optional<ServeRecord> read_optional(ObjectReader& answer, const std::string& key) {
  if (answer.value(key).is_null()) return std::nullopt;
  return read_record(answer.object(key));
}

std::vector<ServeRunnerUpRecord> read_others(ObjectReader& answer, const std::string& key) {
  std::vector<ServeRunnerUpRecord> list;
  for (ObjectReader& reader : answer.objects(key)) {
    ServeRunnerUpRecord other{read_record(reader), 0, 0, reader.text("difference", "")};
    other.throughput = reader.number("throughput", {-1, 1e300}, 0.0);
    other.latency = reader.number("latency", {-1, 1e300}, 0.0);
    list.push_back(std::move(other));
  }
  return list;
}

}  // namespace

InferAnswer read_infer_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  InferAnswer answer;
  answer.question = read_question(reader);
  ObjectReader search = reader.object("search");
  answer.candidates = search.integer("candidates", {}, 0);
  answer.legal = search.integer("legal", {}, 0);
  answer.fits = search.integer("fits", {}, 0);
  answer.meets = search.integer("meets", {}, 0);
  answer.seconds = search.number("seconds", {}, 0.0);
  answer.meets_budget = reader.flag("meets_budget", false);
  answer.best = read_optional(reader, "best");
  answer.smallest = read_optional(reader, "smallest");
  answer.runners_up = read_others(reader, "runners_up");
  for (const ObjectReader& point : reader.objects("frontier"))
    answer.frontier.push_back(read_record(point));
  if (reader.has("measurement")) {
    ObjectReader account = reader.object("measurement");
    answer.new_trials = account.integer("new_trials", {}, 0);
    answer.spent_seconds = account.number("spent_seconds", {}, 0.0);
    answer.correction = account.number("correction", {}, 1.0);
  }
  if (reader.has("confirmation"))
    answer.confirmation = read_confirmation(reader.object("confirmation"));
  answer.reasons = read_texts(reader, "reasons");
  answer.remedies = read_texts(reader, "remedies");
  answer.hints = read_texts(reader, "hints");
  answer.assumptions = read_texts(reader, "assumptions");
  problems.throw_if_any();
  return answer;
}

ServeEstimateAnswer read_serve_estimate_answer(const Json& json) {
  Problems problems(kSource);
  ObjectReader reader(json, "", problems);
  ServeEstimateAnswer answer;
  answer.verb = json.value("schema", "") == "autotune.check_infer/1" ? "autotune check infer"
                                                                     : "autotune estimate infer";
  answer.question = read_question(reader);
  answer.record = read_record(reader);
  for (ObjectReader& violation : reader.objects("violations"))
    answer.violations.push_back(
        {violation.text("code"), violation.text("message"), read_texts(violation, "nearest")});
  answer.nearest = read_others(reader, "nearest_plans");
  answer.assumptions = read_texts(reader, "assumptions");
  problems.throw_if_any();
  return answer;
}

}  // namespace tuner
