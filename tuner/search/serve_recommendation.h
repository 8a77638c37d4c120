// ServeRecommendation: the answer to `autotune infer`, with its reasons.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/search/confirmation.h"
#include "tuner/search/race_account.h"
#include "tuner/search/serve_search.h"

namespace tuner {

struct ServeRunnerUp {
  ServeCandidate candidate;
  bool measured = false;   // both were, and the ratios are of that; else of predictions
  double throughput = 0;   // over the best one's, minus 1
  double latency = 0;      // over the best one's, minus 1
  std::string difference;  // "tp 4 instead of 8, batch 12 instead of 16"
};

// What trials cost and told.
struct ServeMeasureAccount {
  RaceAccount race;
  double correction = 1;  // measured latency over predicted, median
  int lost = 0;           // plans whose trials failed
};

struct ServeRecommendation {
  ServeScenario scenario;
  ServeRestrictions restrictions;
  ServeBudgets budgets;
  double gpu_hour_price = 0;  // 0 = not given

  ServeSearchResult search;  // its best are moved out
  std::optional<ServeCandidate>
      best;  // the nearest where none meets the budgets; absent: none fits
  std::vector<ServeRunnerUp> runners_up;
  std::vector<std::string> reasons;   // why the best one wins
  std::vector<std::string> remedies;  // what would meet the budgets, or fit
  std::vector<std::string> hints;     // what else would help
  std::vector<std::string> assumptions;
  std::optional<ServeMeasureAccount> measurement = {};  // where trials were asked for
  std::optional<Confirmation> confirmation = {};        // where single ranks were run

  bool meets_budget() const { return best && best->meets(); }
};

// Measures some of the candidates and sets `measured` and `excess` of these.
using MeasureServing = std::function<ServeMeasureAccount(std::vector<ServeCandidate>&)>;

// With `measure`, a plan whose trials meet the budgets is recommended before every prediction.
ServeRecommendation recommend_serving(const ServeScenario& scenario,
                                      const ServeRestrictions& restrictions,
                                      const ServeBudgets& budgets, double gpu_hour_price,
                                      const MeasureServing& measure = {});

// One plan with every rule it breaks (AT0201 when it does not fit), and legal ones near it.
struct ServeCheck {
  ServeCandidate checked;
  std::vector<engine::Violation> violations;
  std::vector<ServeCandidate> nearest;  // that fit; empty when the plan is sound
};
ServeCheck check_serving(const ServeScenario& scenario, const ServePlan& plan,
                         const ServeBudgets& budgets, int nearest);

// Dollars, or whatever the price is in, for a million generated tokens; 0 without a price.
double cost_per_million_tokens(const ServeCandidate& candidate, double gpu_hour_price);

// Chance that the plan meets the latency budgets, from the 90 % intervals; 1 without budgets.
double probability_of_meeting(const ServeBudgets& budgets, const ServePrediction& prediction);

// autotune.infer/1.
nlohmann::json serve_recommendation_to_json(const ServeRecommendation& recommendation);
// autotune.estimate_infer/1 and, with `check`, autotune.check_infer/1.
nlohmann::json serve_check_to_json(const ServeScenario& scenario, const ServeBudgets& budgets,
                                   double gpu_hour_price, const ServeCheck& check,
                                   const std::vector<std::string>& assumptions, bool with_nearest);

}  // namespace tuner
