// Cells of plans by memory and time.
#include "tuner/search/plan_cells.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace tuner {
namespace {

// Of the finest cells.
constexpr double kMemoryWidth = 1.0 / 128;
constexpr double kTimeWidth = 1.0 / 64;  // of the natural logarithm

bool before(const PlanCell& a, const PlanCell& b) {
  return std::tuple(a.step_seconds, a.peak_bytes, engine::describe(a.plan)) <
         std::tuple(b.step_seconds, b.peak_bytes, engine::describe(b.plan));
}

// The same without words where numbers decide.
bool faster(const PlanCell& a, const PlanCell& b) {
  return a.step_seconds != b.step_seconds ? a.step_seconds < b.step_seconds : before(a, b);
}

}  // namespace

CellWidth PlanCells::width() const {
  const double scale = std::ldexp(1.0, halvings_);
  return {kMemoryWidth * scale, std::expm1(kTimeWidth * scale)};
}

int64_t PlanCells::key_of(const PlanCell& cell) const {
  const double scale = std::ldexp(1.0, -halvings_);
  const auto memory =
      static_cast<int64_t>(std::floor(cell.peak_bytes / capacity_bytes_ / kMemoryWidth * scale));
  const auto time =
      static_cast<int64_t>(std::floor(std::log(cell.step_seconds) / kTimeWidth * scale));
  return memory * (int64_t{1} << 32) + time;
}

void PlanCells::put(const PlanCell& cell) {
  PlanCell& known = cells_[key_of(cell)];
  const int64_t plans = known.plans + cell.plans;
  if (known.plans == 0 || faster(cell, known)) known = cell;
  known.plans = plans;
}

void PlanCells::coarsen() {
  ++halvings_;
  std::unordered_map<int64_t, PlanCell> finer;
  finer.swap(cells_);
  for (const auto& [key, cell] : finer) put(cell);
}

void PlanCells::add(const engine::ParallelPlan& plan, double step_seconds, double peak_bytes) {
  put({plan, step_seconds, peak_bytes, 1});
  while (cells_.size() > kMostCells) coarsen();
}

std::vector<PlanCell> PlanCells::cells() const {
  std::vector<PlanCell> list;
  for (const auto& [key, cell] : cells_) list.push_back(cell);
  std::sort(list.begin(), list.end(), before);
  return list;
}

}  // namespace tuner
