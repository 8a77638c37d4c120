// Sweep: the best plans of one training on several numbers of GPUs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/search/recommendation.h"

namespace tuner {

struct Sweep {
  std::vector<Recommendation> points;  // fewest GPUs first; at least one
  double gpu_hour_price = 0;           // of one GPU for one hour; 0 = not told
  std::vector<std::string> assumptions;

  bool fits() const;  // on any of the numbers
};

// Searches for each of the scenarios, which differ in the number of GPUs only.
Sweep sweep_gpus(std::vector<Scenario> scenarios, const Restrictions& restrictions);

// autotune.sweep/1.
nlohmann::json sweep_to_json(const Sweep& sweep);

}  // namespace tuner
