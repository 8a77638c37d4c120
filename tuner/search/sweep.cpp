// One training on several numbers of GPUs.
#include "tuner/search/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/search/answer_json.h"

namespace tuner {

using engine::Json;

bool Sweep::fits() const {
  return std::any_of(points.begin(), points.end(),
                     [](const auto& r) { return r.best.has_value(); });
}

Sweep sweep_gpus(std::vector<Scenario> scenarios, const Restrictions& restrictions) {
  std::stable_sort(scenarios.begin(), scenarios.end(), [](const Scenario& a, const Scenario& b) {
    return a.cluster.gpus < b.cluster.gpus;
  });
  Sweep sweep;
  for (const Scenario& scenario : scenarios)
    sweep.points.push_back(recommend(scenario, restrictions));
  return sweep;
}

namespace {

double throughput(const Recommendation& r) {
  return static_cast<double>(r.scenario.workload.gbs * r.scenario.workload.seq) /
         r.best->step_seconds();
}

// Against the smallest number on which a plan fits, with all that it could be at best.
double efficiency(const Recommendation& first, const Recommendation& r) {
  return throughput(r) / throughput(first) * first.scenario.cluster.gpus / r.scenario.cluster.gpus;
}

Json point_json(const Recommendation& r, const Recommendation* first, double price) {
  Json json = {{"gpus", r.scenario.cluster.gpus},
               {"search",
                {{"candidates", r.search.counts.candidates},
                 {"legal", r.search.counts.legal},
                 {"fits", r.search.fits}}},
               {"best", answer_json(r.scenario, r.best)},
               {"remedies", r.remedies}};
  if (!r.best) return json;
  const double days = r.days_to_train(), hours = days * 24 * r.scenario.cluster.gpus;
  json["days_to_train"] = days;
  json["gpu_hours"] = hours;
  json["cost"] = price > 0 ? Json(hours * price) : Json(nullptr);
  json["tokens_per_second"] = throughput(r);
  json["scaling_efficiency"] = efficiency(*first, r);
  return json;
}

// What the numbers say: how it scales, and what the next step up costs.
std::vector<std::string> reasons(const Sweep& sweep) {
  std::vector<const Recommendation*> fitting;
  for (const Recommendation& r : sweep.points)
    if (r.best) fitting.push_back(&r);
  std::vector<std::string> sentences;
  for (size_t i = 1; i < fitting.size(); ++i) {
    const Recommendation& few = *fitting[i - 1];
    const Recommendation& many = *fitting[i];
    const double share = efficiency(few, many);
    sentences.push_back(
        fmt::format("from {} to {} GPUs: {:.2f} × as fast, {:.0f} % of linear; {:+.0f} % GPU-hours",
                    engine::format_grouped(few.scenario.cluster.gpus),
                    engine::format_grouped(many.scenario.cluster.gpus),
                    throughput(many) / throughput(few), 100 * share, 100 * (1 / share - 1)));
  }
  return sentences;
}

}  // namespace

Json sweep_to_json(const Sweep& sweep) {
  const auto first = std::find_if(sweep.points.begin(), sweep.points.end(),
                                  [](const auto& r) { return r.best.has_value(); });
  Json points = Json::array();
  for (const Recommendation& r : sweep.points)
    points.push_back(
        point_json(r, first == sweep.points.end() ? nullptr : &*first, sweep.gpu_hour_price));
  Json json = {
      {"schema", "autotune.sweep/1"},
      {"points", std::move(points)},
      {"price_per_gpu_hour", sweep.gpu_hour_price > 0 ? Json(sweep.gpu_hour_price) : Json(nullptr)},
      {"reasons", reasons(sweep)},
      {"assumptions", sweep.assumptions}};
  add_question(json, sweep.points.back().scenario);
  return json;
}

}  // namespace tuner
