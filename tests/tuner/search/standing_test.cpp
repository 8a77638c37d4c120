// One order of plans: what keeps its limits, what carries the load, then what is asked for.
#include "tuner/search/standing.h"

#include <gtest/gtest.h>

#include "tuner/search/serve_search.h"

namespace tuner {
namespace {

ServeCandidate candidate(double latency, double tokens_per_second, double excess,
                         bool sustained = true) {
  ServeCandidate one;
  one.predicted.latency_seconds = latency;
  one.predicted.tokens_per_second = tokens_per_second;
  one.predicted.sustained = sustained;
  one.excess = excess;
  return one;
}

TEST(Standing, LimitsComeFirst) {
  const Standing slow{3, 0.9}, fast{1, 1.1}, faster{0.5, 1.2};
  EXPECT_TRUE(slow.is_better_than(fast));
  EXPECT_TRUE(fast.is_better_than(faster));
  EXPECT_FALSE(faster.is_better_than(slow));
  EXPECT_FALSE(slow.is_better_than(slow));
}

TEST(Standing, TheSecondValueDecidesBetweenEqualOnes) {
  const Standing one{1, 0, 5}, other{1 + 1e-12, 0, 4};
  EXPECT_TRUE(other.is_better_than(one));
  EXPECT_FALSE(one.is_better_than(other));
}

TEST(Standing, OfServingFollowsTheQuestion) {
  const ServeBudgets open;
  ServeBudgets floor;
  floor.tokens_per_second = 10;
  const ServeCandidate quick = candidate(1, 100, 0.5), wide = candidate(2, 200, 0.5);
  EXPECT_TRUE(is_better(open, wide, quick));
  EXPECT_TRUE(is_better(floor, quick, wide));
  EXPECT_TRUE(is_better(open, quick, candidate(2, 100, 0.5))) << "latency decides a tie";
}

TEST(Standing, WhatCannotCarryTheLoadComesLastMeasuredOrNot) {
  const ServeBudgets open;
  ServeCandidate lost = candidate(1, 300, 0.5, false);
  const ServeCandidate late = candidate(9, 100, 3);
  EXPECT_TRUE(is_better(open, late, lost));
  engine::Outcome& outcome = lost.measured.emplace();
  outcome.step_seconds = 0.5;
  outcome.serving.emplace().tokens_per_second = 500;
  EXPECT_TRUE(is_better(open, late, lost));
  EXPECT_TRUE(is_better(open, lost, candidate(1, 300, 0.7, false))) << "by what they miss";
}

}  // namespace
}  // namespace tuner
