// JSON of the answers about size.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/search/answer_json.h"
#include "tuner/search/size.h"

namespace tuner {

using engine::Json;

namespace {

Json range_json(double low, double high) {
  auto end = [](double amount) { return amount > 0 ? Json(amount) : Json(nullptr); };
  return Json::array({end(low), end(high)});
}

// Smaller amount first; an end that nothing meets is null.
Json range_json(const Sizing& sizing, SizeUnknown unknown) {
  if (!sizing.range || sizing.request.unknown != unknown) return nullptr;
  const auto& [fast, slow] = *sizing.range;
  return unknown == SizeUnknown::gpus ? range_json(fast, slow) : range_json(slow, fast);
}

// Where the compute-optimal training lies, given the parameters, the tokens, or the product of both
// that decides the compute (6 FLOPs each, Kaplan et al. 2020, section 2.1).
Json optimum_json(double parameters, double tokens) {
  const double same = std::sqrt(parameters * tokens / kOptimalTokensPerParameter);
  return {{"tokens_per_parameter", kOptimalTokensPerParameter},
          {"tokens", parameters * kOptimalTokensPerParameter},
          {"parameters", tokens / kOptimalTokensPerParameter},
          {"same_compute", {{"parameters", same}, {"tokens", same * kOptimalTokensPerParameter}}}};
}

void add_amounts(Json& json, const Sizing& sizing) {
  constexpr double kHoursOfDay = 24;
  const double gpu_hours = kHoursOfDay * sizing.scenario.cluster.gpus;
  const double price = sizing.request.gpu_hour_price;
  const double days = sizing.days();
  const auto [low, high] = sizing.interval_days();
  const bool priced = price > 0;
  json["days"] = days;
  json["interval_days"] = range_json(low, high);
  json["gpu_hours"] = days * gpu_hours;
  json["interval_gpu_hours"] = range_json(low * gpu_hours, high * gpu_hours);
  json["cost"] = priced ? Json(days * gpu_hours * price) : Json(nullptr);
  json["interval_cost"] =
      priced ? range_json(low * gpu_hours * price, high * gpu_hours * price) : Json(nullptr);
}

}  // namespace

Json sizing_to_json(const Sizing& sizing) {
  const Scenario& scenario = sizing.scenario;
  const double parameters = static_cast<double>(parameter_count(scenario.model));
  const double deadline = sizing.request.deadline_days;
  const double price = sizing.request.gpu_hour_price;
  const int node = scenario.cluster.gpus_per_node();
  Json json = {{"schema", "autotune.size/1"},
               {"asked", name_of(sizing.request.unknown)},
               {"deadline_days", deadline > 0 ? Json(deadline) : Json(nullptr)},
               {"meets_deadline", deadline > 0 ? Json(sizing.meets_deadline) : Json(nullptr)},
               {"price_per_gpu_hour", price > 0 ? Json(price) : Json(nullptr)},
               {"gpus", scenario.cluster.gpus},
               {"nodes", (scenario.cluster.gpus + node - 1) / node},
               {"interval_gpus", range_json(sizing, SizeUnknown::gpus)},
               {"parameters", parameters},
               {"interval_parameters", range_json(sizing, SizeUnknown::parameters)},
               {"days", nullptr},
               {"interval_days", nullptr},
               {"gpu_hours", nullptr},
               {"interval_gpu_hours", nullptr},
               {"cost", nullptr},
               {"interval_cost", nullptr},
               {"best", answer_json(scenario, sizing.best)},
               {"compute_optimal", optimum_json(parameters, scenario.workload.tokens)},
               {"searches", sizing.searches},
               {"notes", sizing.notes},
               {"remedies", sizing.remedies},
               {"assumptions", sizing.assumptions}};
  if (sizing.best) add_amounts(json, sizing);
  add_question(json, scenario);
  return json;
}

}  // namespace tuner
