// Two plans side by side.
#include "tuner/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/profile/statistics.h"
#include "tuner/report/phrases.h"
#include "tuner/report/serve_answer.h"

namespace tuner {
namespace {

using engine::Interval;
using engine::Json;

constexpr double kTwoSided90 = 1.6449;

// A side with all that decides the comparison.
struct Side {
  ComparedPlan plan;
  bool serving = false;
  std::vector<std::pair<std::string, std::string>> facts;  // settings by name, in order
  std::vector<std::pair<std::string, double>> parts;       // seconds by title, in order
  std::vector<double> samples;
  double sigma = 0;        // of the logarithm of the seconds
  double correlation = 0;  // with another prediction of the same kin
  std::string kin;         // model, machine and stack
};

[[noreturn]] void no_plan(const ComparedAnswer& given, const std::string& known) {
  throw engine::InputError(
      fmt::format("{} has no plan '{}' to compare; it has {}", given.name, given.plan, known));
}

std::optional<size_t> number_of(const std::string& text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The place among the runners-up that "2" means.
std::optional<size_t> runner_up_of(const ComparedAnswer& given, size_t count) {
  const auto place = number_of(given.plan);
  return place && *place >= 2 && *place < count + 2 ? std::optional(*place - 2) : std::nullopt;
}

std::string places(bool baseline, size_t runners_up) {
  std::string text = "best";
  if (baseline) text += ", baseline";
  if (runners_up > 0) text += fmt::format(", 2 to {}", runners_up + 1);
  return text;
}

double sigma_of(const Interval& interval, double fallback) {
  if (!(interval.low > 0) || !(interval.high > interval.low)) return fallback;
  return std::log(interval.high / interval.low) / (2 * kTwoSided90);
}

void add_question(const Question& question, Side& side) {
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty() && value != "0") side.facts.emplace_back(name, std::move(value));
  };
  add("model", question.model);
  add("GPUs", engine::format_grouped(question.gpus));
  add("GPU", question.gpu);
  add("system", question.system);
  add("stack", question.stack);
  add("sequence", engine::format_grouped(question.seq));
  add("global batch", engine::format_grouped(question.gbs));
  add("tokens", question.tokens > 0 ? engine::format_count(question.tokens) : "");
  add("precision", question.precision);
  add("attention", question.attention);
  side.kin = question.model + "\n" + question.gpu + "\n" + question.stack;
}

void add_training_plan(const PlanRecord& record, Side& side) {
  if (!record.plan) return;
  const engine::ParallelPlan& plan = *record.plan;
  const std::pair<const char*, int64_t> degrees[] = {
      {"tp", plan.tp}, {"pp", plan.pp}, {"vpp", plan.vpp}, {"cp", plan.cp},
      {"ep", plan.ep}, {"dp", plan.dp}, {"mbs", plan.mbs}};
  for (const auto& [name, degree] : degrees)
    side.facts.emplace_back(name, fmt::format("{}", degree));
  side.facts.emplace_back("sp", plan.sp ? "on" : "off");
  side.facts.emplace_back("recompute", to_string(plan.recompute));
  side.facts.emplace_back("zero", fmt::format("{}", plan.zero));
  std::string layers;
  for (const int64_t count : record.layers_per_stage)
    layers += (layers.empty() ? "" : " ") + fmt::format("{}", count);
  side.facts.emplace_back("layers per stage", layers);
}

// The plan that is meant, and the question it answers.
std::pair<PlanRecord, Question> chosen_record(const ComparedAnswer& given) {
  const std::string schema = given.answer.value("schema", "");
  const bool any = given.plan.empty() || given.plan == "best";
  if (schema == "autotune.train/1") {
    TrainAnswer answer = read_train_answer(given.answer);
    if (any && answer.best) return {*answer.best, answer.question};
    if (given.plan == "baseline" && answer.baseline) return {*answer.baseline, answer.question};
    if (const auto place = runner_up_of(given, answer.runners_up.size()))
      return {answer.runners_up[*place].record, answer.question};
    no_plan(given, answer.best ? places(answer.baseline.has_value(), answer.runners_up.size())
                               : "none: nothing fits");
  }
  if (schema == "autotune.sweep/1") {
    SweepAnswer answer = read_sweep_answer(given.answer);
    const auto gpus = number_of(given.plan);
    for (const SweepPointRecord& point : answer.points)
      if (point.best && gpus && static_cast<size_t>(point.gpus) == *gpus) {
        answer.question.gpus = point.gpus;
        return {*point.best, answer.question};
      }
    no_plan(given, "one for each number of GPUs on which something fits, as in 17:512");
  }
  if (!any) no_plan(given, "one only");
  if (schema == "autotune.size/1") {
    const SizeAnswer answer = read_size_answer(given.answer);
    if (answer.best) return {*answer.best, answer.question};
    no_plan(given, "none: nothing fits");
  }
  const EstimateAnswer answer = read_estimate_answer(given.answer);
  return {answer.record, answer.question};
}

Side training_side(const ComparedAnswer& given) {
  const auto [record, question] = chosen_record(given);
  const engine::Outcome* outcome = record.outcome();
  if (!outcome || !(outcome->step_seconds > 0))
    throw engine::InputError(
        given.name + " has no time to compare: its plan breaks a rule or was never predicted");
  Side side;
  side.plan = {given.name, record.text, outcome->measured, outcome->step_seconds,
               outcome->interval_seconds};
  side.plan.tokens_per_second =
      static_cast<double>(question.gbs * question.seq) / outcome->step_seconds;
  if (question.tokens > 0 && side.plan.tokens_per_second > 0)
    side.plan.days = question.tokens / side.plan.tokens_per_second / 86400;
  side.plan.peak_bytes = outcome->memory.peak_bytes;
  side.plan.capacity_bytes = outcome->memory.capacity_bytes;
  add_question(question, side);
  add_training_plan(record, side);
  // Only a prediction tells the parts.
  const engine::Outcome& parts =
      outcome->breakdown_seconds.empty() && record.predicted ? *record.predicted : *outcome;
  auto list = parts.breakdown_seconds;
  std::stable_sort(list.begin(), list.end(), [](const auto& one, const auto& other) {
    return is_part_before(one.first, other.first);
  });
  for (const auto& [name, seconds] : list) side.parts.emplace_back(part_title(name), seconds);
  side.samples = outcome->samples_seconds;
  side.sigma = sigma_of(outcome->interval_seconds, question.residual_sigma);
  side.correlation = question.residual_correlation;
  return side;
}

const ServeRecord& chosen_serve_record(const ComparedAnswer& given, const InferAnswer& answer) {
  if ((given.plan.empty() || given.plan == "best") && answer.best) return *answer.best;
  if (given.plan == "smallest" && answer.smallest) return *answer.smallest;
  if (const auto place = runner_up_of(given, answer.runners_up.size()))
    return answer.runners_up[*place].record;
  no_plan(given, answer.best ? places(false, answer.runners_up.size()) : "none: nothing fits");
}

Side serving_side(const ComparedAnswer& given) {
  Side side;
  side.serving = true;
  const bool search = given.answer.value("schema", "") == "autotune.infer/1";
  InferAnswer answer;
  ServeRecord record;
  ServeQuestionRecord question;
  if (search) {
    answer = read_infer_answer(given.answer);
    record = chosen_serve_record(given, answer);
    question = answer.question;
  } else {
    if (!given.plan.empty() && given.plan != "best") no_plan(given, "one only");
    const ServeEstimateAnswer estimate = read_serve_estimate_answer(given.answer);
    record = estimate.record;
    question = estimate.question;
  }
  if (!record.predicted || !(record.latency.value > 0))
    throw engine::InputError(given.name + " has no latency to compare: its plan breaks a rule");
  side.plan = {given.name, record.text, false, record.latency.value, record.latency.interval};
  side.plan.tokens_per_second = record.throughput.value;
  side.plan.ttft = record.ttft.value;
  side.plan.tpot = record.tpot.value;
  side.plan.peak_bytes = record.peak_bytes;
  side.plan.capacity_bytes = record.capacity_bytes;
  add_question(question.common, side);
  side.facts.emplace_back("input", engine::format_grouped(question.input));
  side.facts.emplace_back("output", engine::format_grouped(question.output));
  side.facts.emplace_back("arrival", question.arrival);
  const std::pair<const char*, int64_t> degrees[] = {{"tp", record.plan.tp},
                                                     {"ep", record.plan.ep},
                                                     {"pp", record.plan.pp},
                                                     {"replicas", record.plan.replicas},
                                                     {"batch", record.plan.batch}};
  for (const auto& [name, degree] : degrees)
    side.facts.emplace_back(name, fmt::format("{}", degree));
  side.facts.emplace_back("weights", name_of(record.plan.weights));
  side.facts.emplace_back("KV cache", name_of(record.plan.kv));
  for (size_t i = 0; i < record.prefill.size(); ++i)
    side.parts.emplace_back(serve_part_title(record.prefill[i].first),
                            record.prefill[i].second + record.decode[i].second);
  side.parts.emplace_back("waiting", record.waiting);
  side.sigma = sigma_of(record.latency.interval, 0);
  return side;
}

Side side_of(const ComparedAnswer& given) {
  std::string schema;
  if (given.answer.is_object() && given.answer.contains("schema") &&
      given.answer["schema"].is_string())
    schema = given.answer["schema"].get<std::string>();
  if (schema.find("infer") != std::string::npos) return serving_side(given);
  constexpr std::string_view kTraining[] = {"autotune.train/1", "autotune.sweep/1",
                                            "autotune.size/1", "autotune.estimate/1",
                                            "autotune.check/1"};
  if (std::find(std::begin(kTraining), std::end(kTraining), schema) == std::end(kTraining))
    throw engine::InputError(fmt::format(
        "{} is no answer that can be compared; give the number of a run, or a file that --json of "
        "train, infer, size, estimate or check wrote",
        given.name));
  return training_side(given);
}

struct Speedup {
  double value = 1;
  Interval interval;
  double probability = 0.5;
  std::string uncertainty;
};

Speedup speedup_of(const Side& a, const Side& b) {
  constexpr size_t kFewestSamples = 3;
  Speedup speedup;
  speedup.value = b.plan.tokens_per_second / a.plan.tokens_per_second;
  double spread = 0;
  if (a.plan.measured && b.plan.measured && a.samples.size() >= kFewestSamples &&
      b.samples.size() >= kFewestSamples) {
    const Ratio ratio = ratio_of_medians(a.samples, b.samples);
    spread = std::log(ratio.interval.high / ratio.interval.low) / (2 * kTwoSided90);
    speedup.uncertainty = "Both are measured; the interval comes from the spread of their steps.";
  } else if (a.kin == b.kin && !a.plan.measured && !b.plan.measured && a.correlation > 0) {
    const double sigma = std::max(a.sigma, b.sigma);
    spread = sigma * std::sqrt(2 * (1 - a.correlation));
    speedup.uncertainty =
        "Both are predicted for one model, machine and stack, and so share most of their error.";
  } else {
    spread = std::hypot(a.sigma, b.sigma);
    speedup.uncertainty = "The errors of the two are taken as independent.";
  }
  const double factor = std::exp(kTwoSided90 * spread);
  speedup.interval = {speedup.value / factor, speedup.value * factor};
  const double distance = std::log(speedup.value);
  speedup.probability = spread > 0     ? 0.5 * std::erfc(-distance / spread / std::sqrt(2.0))
                        : distance > 0 ? 1
                        : distance < 0 ? 0
                                       : 0.5;
  return speedup;
}

Json side_json(const ComparedPlan& plan) {
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  return {{"name", plan.name},
          {"text", plan.text},
          {"measured", plan.measured},
          {"seconds", plan.seconds},
          {"interval_seconds", {plan.interval.low, plan.interval.high}},
          {"tokens_per_second", known(plan.tokens_per_second)},
          {"days_to_train", known(plan.days)},
          {"ttft_seconds", known(plan.ttft)},
          {"tpot_seconds", known(plan.tpot)},
          {"peak_bytes", plan.peak_bytes},
          {"capacity_bytes", plan.capacity_bytes}};
}

// What one has otherwise than the other; what only one has, too.
Json differences_json(const Side& a, const Side& b) {
  Json list = Json::array();
  const auto value_in = [](const Side& side, const std::string& name) {
    for (const auto& [known, value] : side.facts)
      if (known == name) return value;
    return std::string();
  };
  for (const auto& [name, value] : a.facts)
    if (const std::string other = value_in(b, name); other != value)
      list.push_back({{"what", name}, {"a", value}, {"b", other}});
  for (const auto& [name, value] : b.facts)
    if (value_in(a, name).empty() && !value.empty() &&
        std::none_of(a.facts.begin(), a.facts.end(),
                     [&, &wanted = name](const auto& fact) { return fact.first == wanted; }))
      list.push_back({{"what", name}, {"a", ""}, {"b", value}});
  return list;
}

Json parts_json(const Side& a, const Side& b) {
  Json list = Json::array();
  const auto seconds_in = [](const Side& side, const std::string& name) {
    double sum = 0;
    for (const auto& [known, seconds] : side.parts)
      if (known == name) sum += seconds;
    return sum;
  };
  for (const auto& [name, seconds] : a.parts)
    list.push_back({{"name", name}, {"a_seconds", seconds}, {"b_seconds", seconds_in(b, name)}});
  for (const auto& [name, seconds] : b.parts)
    if (std::none_of(a.parts.begin(), a.parts.end(),
                     [&, &wanted = name](const auto& part) { return part.first == wanted; }))
      list.push_back({{"name", name}, {"a_seconds", 0.0}, {"b_seconds", seconds}});
  return list;
}

}  // namespace

Json compare_answers(const ComparedAnswer& a, const ComparedAnswer& b) {
  const Side first = side_of(a), second = side_of(b);
  if (first.serving != second.serving)
    throw engine::InputError(
        fmt::format("{} and {} cannot be compared: one trains, one serves", a.name, b.name));
  const Speedup speedup = speedup_of(first, second);
  return {{"schema", "autotune.compare/1"},
          {"kind", first.serving ? "infer" : "train"},
          {"a", side_json(first.plan)},
          {"b", side_json(second.plan)},
          {"differences", differences_json(first, second)},
          {"speedup", speedup.value},
          {"interval_speedup", {speedup.interval.low, speedup.interval.high}},
          {"probability_faster", speedup.probability},
          {"uncertainty", speedup.uncertainty},
          {"parts", parts_json(first, second)}};
}

}  // namespace tuner
