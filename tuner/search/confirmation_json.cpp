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

}  // namespace

bool Confirmation::is_complete() const {
  return !interrupted && std::all_of(stages.begin(), stages.end(), [](const ConfirmedStage& stage) {
    return stage.status == engine::OutcomeStatus::ok;
  });
}

Json confirmation_to_json(const Confirmation& c) {
  Json stages = Json::array();
  for (const ConfirmedStage& stage : c.stages) stages.push_back(stage_json(stage));
  return {{"plan", engine::describe(c.of)},
          {"plan_layers", c.of_layers},
          {"slice", engine::plan_to_json(c.slice, c.layers)},
          {"slice_text", engine::describe(c.slice)},
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
