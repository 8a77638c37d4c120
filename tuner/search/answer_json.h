// Members that the JSON of all answers shares.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tuner/model/scenario.h"
#include "tuner/search/recommendation.h"

namespace tuner {

// model, cluster, stack, workload.
void add_question(nlohmann::json& json, const Scenario& scenario);
// plan, text, predicted, measured.
void add_answer(nlohmann::json& json, const Scenario& scenario, const PlanAnswer& answer);
// The same as an object; null without an answer.
nlohmann::json answer_json(const Scenario& scenario, const std::optional<PlanAnswer>& answer);

}  // namespace tuner
