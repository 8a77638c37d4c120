// JSON of a confirmation.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/search/confirmation.h"

namespace tuner {

using engine::Json;

namespace {

constexpr const char* kUnits[] = {"bytes", "flops", "messages"};

Json stage_json(const ConfirmedStage& stage) {
  Json counts = Json::array();
  for (const ConfirmedCount& count : stage.counts)
    counts.push_back({{"what", count.what},
                      {"unit", kUnits[static_cast<size_t>(count.unit)]},
                      {"predicted", count.predicted},
                      {"metered", count.metered}});
  return {{"stage", stage.stage},
          {"place", stage.place},
          {"rank", stage.rank},
          {"status", name_of(stage.status)},
          {"reason", stage.reason},
          {"trials", stage.trials},
          {"measured_seconds", stage.measured_seconds},
          {"predicted_seconds", stage.predicted_seconds},
          {"predicted_bytes", stage.predicted_bytes},
          {"peak_bytes", stage.peak_bytes},
          {"counts", std::move(counts)}};
}

Json plan_json(const AnyPlan& plan, int64_t layers) {
  if (const auto* serving = std::get_if<ServePlan>(&plan)) return serve_plan_to_json(*serving);
  return engine::plan_to_json(std::get<engine::ParallelPlan>(plan), layers);
}

}  // namespace

std::string text_of(const AnyPlan& plan) {
  return std::visit([](const auto& one) { return describe(one); }, plan);
}

bool Confirmation::is_complete() const {
  return !interrupted && std::all_of(stages.begin(), stages.end(), [](const ConfirmedStage& stage) {
    return stage.status == engine::OutcomeStatus::ok;
  });
}

Json confirmation_to_json(const Confirmation& c) {
  Json stages = Json::array();
  for (const ConfirmedStage& stage : c.stages) stages.push_back(stage_json(stage));
  return {{"plan", text_of(c.of)},
          {"plan_layers", c.of_layers},
          {"slice", plan_json(c.slice, c.layers)},
          {"slice_text", c.slice_text},
          {"slice_layers", c.layers},
          {"precision", name_of(c.precision)},
          {"device", c.device},
          {"times_count", c.times_count},
          {"compute_factor", c.compute_factor},
          {"stages", std::move(stages)},
          {"new_trials", c.new_trials},
          {"spent_seconds", c.spent_seconds},
          {"interrupted", c.interrupted}};
}

}  // namespace tuner
