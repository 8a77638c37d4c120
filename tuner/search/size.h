// Size: how long a training takes, how many GPUs it needs, or how large a model can be.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/model/scenario.h"
#include "tuner/search/recommendation.h"

namespace tuner {

// Tokens a parameter at which a given amount of compute gives the lowest loss (Hoffmann et al.
// 2022, section 3 and table 3).
constexpr double kOptimalTokensPerParameter = 20;

enum class SizeUnknown : uint8_t { days, gpus, parameters };
std::string_view name_of(SizeUnknown unknown);

struct SizeRequest {
  SizeUnknown unknown = SizeUnknown::days;
  // What is asked for, its model or its number of GPUs, counts for nothing. The tokens are given.
  Scenario scenario;
  double deadline_days = 0;   // given unless the days are asked for
  double gpu_hour_price = 0;  // of one GPU for one hour, in any currency; 0 = not told
};

// Amounts of what is asked for if all steps took the fast or the slow end of their 90 % interval,
// as that of the best plan; 0 where nothing meets the deadline then.
struct SizeRange {
  double fast = 0;
  double slow = 0;
};

struct Sizing {
  SizeRequest request;
  Scenario scenario;                  // with the model and the GPUs that were found
  std::optional<PlanAnswer> best;     // absent: nothing fits
  bool meets_deadline = false;        // true where the days are asked for and a plan fits
  std::optional<SizeRange> range;     // of GPUs or parameters, where the deadline is met
  int64_t searches = 0;               // over all plans of one model on one number of GPUs
  std::vector<std::string> notes;     // what limits the answer, and what lies next to it
  std::vector<std::string> remedies;  // when nothing fits: what would
  std::vector<std::string> assumptions;

  double days() const;  // 0 without a plan
  engine::Interval interval_days() const;
};

// The throughput is that of the best plan, found by search for every model and number of GPUs that
// is looked at. GPUs: the fewest whole nodes that meet the deadline. Parameters: the largest model
// in the proportions of GPT-3 that meets it. Where no number or size does, the fastest one.
Sizing size_training(const SizeRequest& request);

// autotune.size/1.
nlohmann::json sizing_to_json(const Sizing& sizing);

}  // namespace tuner
