// PlanCells: of very many plans the picture of memory against time, in few points.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/plan/parallel_plan.h"

namespace tuner {

// Plans that need about the same memory and take about the same time, with the fastest of them.
struct PlanCell {
  engine::ParallelPlan plan;
  double step_seconds = 0;
  double peak_bytes = 0;
  int64_t plans = 0;  // of the cell
};

// How wide a cell is.
struct CellWidth {
  double memory = 0;  // part of the capacity
  double time = 0;    // relative
};

// Plans of one cell become one point. Cells grow until there are at most kMostCells of them; the
// same plans in any order give the same cells.
class PlanCells {
 public:
  static constexpr size_t kMostCells = 600;

  explicit PlanCells(double capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  void add(const engine::ParallelPlan& plan, double step_seconds, double peak_bytes);

  std::vector<PlanCell> cells() const;  // fastest first
  CellWidth width() const;

 private:
  int64_t key_of(const PlanCell& cell) const;
  void put(const PlanCell& cell);
  void coarsen();

  double capacity_bytes_;
  int halvings_ = 0;  // of the resolution
  std::unordered_map<int64_t, PlanCell> cells_;
};

}  // namespace tuner
