// Compare: what differs between two plans, and why one is faster.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/outcome.h"

namespace tuner {

// An answer, and which of its plans is meant.
struct ComparedAnswer {
  std::string name;  // as the user gave it
  const nlohmann::json& answer;
  // "best", "baseline", "2" (as in the table of runners-up), "512" (of a sweep the number of GPUs);
  // empty = the best, or the only one.
  std::string plan = {};
};

// autotune.compare/1. Both answers are of training or both of serving. Throws InputError where a
// plan is not there or has no time.
nlohmann::json compare_answers(const ComparedAnswer& a, const ComparedAnswer& b);

// One side, as it is shown.
struct ComparedPlan {
  std::string name, text;
  bool measured = false;
  double seconds = 0;  // of a step, or of a request
  engine::Interval interval;
  double tokens_per_second = 0, days = 0, ttft = 0, tpot = 0;  // 0 = not known
  double peak_bytes = 0, capacity_bytes = 0;
};

struct CompareAnswer {
  bool serving = false;
  ComparedPlan a, b;
  struct Difference {
    std::string what, a, b;
  };
  std::vector<Difference> differences;
  double speedup = 1;  // throughput of b over that of a
  engine::Interval speedup_interval;
  double probability_faster = 0.5;  // that b is
  std::string uncertainty;          // where the interval comes from, a sentence
  struct Part {
    std::string name;
    double a_seconds = 0, b_seconds = 0;
  };
  std::vector<Part> parts;  // of a step or a request
};

// Throws InputError with every problem of the JSON.
CompareAnswer read_compare_answer(const nlohmann::json& answer);

}  // namespace tuner
