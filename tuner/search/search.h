// Search: enumerate every legal plan, keep those that fit, rank them by predicted time.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"
#include "tuner/search/plan_cells.h"
#include "tuner/space/search_space.h"

namespace tuner {

struct ScoredPlan {
  engine::ParallelPlan plan;
  double step_seconds = 0;
  double peak_bytes = 0;
};

struct SearchResult {
  SpaceCounts counts;
  int64_t fits = 0;
  double seconds = 0;  // wall time of the search
  // Fastest first, by the closed form: the fastest of every kind (see kind_of) and the fastest of
  // all.
  std::vector<ScoredPlan> finalists;
  // All that fit, few enough to draw; timed by the closed form.
  std::vector<PlanCell> cells;
  CellWidth cell_width;
  // The plan with the smallest peak when none fits.
  std::optional<ScoredPlan> smallest;
};

// Plans of one kind differ in degree only: same tp, cp, SP, sharding and mode of recomputation.
struct PlanKind {
  int tp, cp;
  bool sp;
  int zero;
  engine::Recompute::Mode recompute;
  auto operator<=>(const PlanKind&) const = default;
};
PlanKind kind_of(const engine::ParallelPlan& plan);

SearchResult search_plans(const Scenario& scenario, const Restrictions& restrictions);

// The legal plans nearest to `plan` (fewest changed members, then least change), one of every kind,
// each with its cost, at most `count`; those that fit come first.
std::vector<ScoredPlan> nearest_plans(const Scenario& scenario, const engine::ParallelPlan& plan,
                                      int count);

}  // namespace tuner
