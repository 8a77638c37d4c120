// Thinning of plans: few cells, each with its fastest plan, whatever the order.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tuner/search/plan_cells.h"

namespace tuner {
namespace {

struct Sample {
  engine::ParallelPlan plan;
  double seconds, bytes;
};

std::vector<Sample> many_plans(int count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(1, 200), bytes(0.05e9, 79e9);
  std::vector<Sample> plans;
  for (int i = 0; i < count; ++i) {
    engine::ParallelPlan plan;
    plan.dp = i + 1;
    plans.push_back({plan, seconds(random), bytes(random)});
  }
  return plans;
}

std::vector<PlanCell> cells_of(const std::vector<Sample>& plans) {
  PlanCells cells(80e9);
  for (const Sample& one : plans) cells.add(one.plan, one.seconds, one.bytes);
  return cells.cells();
}

TEST(PlanCells, StandForAllPlansInFewPoints) {
  const std::vector<Sample> plans = many_plans(100'000);
  const std::vector<PlanCell> cells = cells_of(plans);
  EXPECT_LE(cells.size(), PlanCells::kMostCells);
  EXPECT_GT(cells.size(), PlanCells::kMostCells / 8);
  const auto sum = [](int64_t total, const PlanCell& cell) { return total + cell.plans; };
  EXPECT_EQ(std::accumulate(cells.begin(), cells.end(), int64_t{0}, sum), 100'000);
  const auto faster = [](const Sample& a, const Sample& b) { return a.seconds < b.seconds; };
  EXPECT_EQ(cells.front().step_seconds,
            std::min_element(plans.begin(), plans.end(), faster)->seconds);
}

TEST(PlanCells, DoNotDependOnTheOrder) {
  std::vector<Sample> plans = many_plans(5000);
  const std::vector<PlanCell> forward = cells_of(plans);
  std::reverse(plans.begin(), plans.end());
  const std::vector<PlanCell> backward = cells_of(plans);
  ASSERT_EQ(forward.size(), backward.size());
  for (size_t i = 0; i < forward.size(); ++i) {
    EXPECT_EQ(forward[i].plan, backward[i].plan);
    EXPECT_EQ(forward[i].plans, backward[i].plans);
  }
}

TEST(PlanCells, FewPlansStayAsTheyAre) {
  const std::vector<PlanCell> cells = cells_of(many_plans(20));
  EXPECT_EQ(cells.size(), 20U);
}

}  // namespace
}  // namespace tuner
