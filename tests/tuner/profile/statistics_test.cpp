// Statistics of step times: medians, warm-up, outliers, drift, and when one plan is faster.
#include "tuner/profile/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace tuner {
namespace {

std::vector<double> noisy(double center, double spread, size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(center, spread);
  std::vector<double> samples(count);
  for (double& sample : samples) sample = normal(random);
  return samples;
}

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median_of({3}), 3);
  EXPECT_EQ(median_of({5, 1, 3}), 3);
  EXPECT_EQ(median_of({4, 1, 3, 2}), 2.5);
}

TEST(Statistics, SpreadIsDeafToOneOutlier) {
  EXPECT_NEAR(robust_spread({1, 2, 3, 4, 5}), 1.4826, 1e-12);
  EXPECT_NEAR(robust_spread({1, 2, 3, 4, 500}), 1.4826, 1e-12);
}

TEST(Statistics, SpreadOfANormalDistributionIsItsDeviation) {
  EXPECT_NEAR(robust_spread(noisy(10, 0.5, 4000, 1)), 0.5, 0.03);
}

TEST(Statistics, SlowFirstStepsAreWarmUp) {
  EXPECT_EQ(warm_up_length({9, 1.0, 1.1, 1.05, 1.0, 1.1}), 1u);
  EXPECT_EQ(warm_up_length({9, 3, 1.0, 1.1, 1.05, 1.0, 1.1}), 2u);
  EXPECT_EQ(warm_up_length({1.05, 1.0, 1.1, 1.05, 1.0, 1.1}), 0u);
  // A fast first step is none, and never more than a third is dropped.
  EXPECT_EQ(warm_up_length({0.1, 1.0, 1.1, 1.05, 1.0, 1.1}), 0u);
  EXPECT_EQ(warm_up_length({9, 8, 7}), 0u);
}

TEST(Statistics, SummaryFlagsOutliersAndDrift) {
  const SampleSummary steady = summarize_samples({1.00, 1.01, 0.99, 1.0, 1.02, 1.01, 0.99, 1.0});
  EXPECT_EQ(steady.outliers, 0u);
  EXPECT_FALSE(steady.drifts);
  EXPECT_EQ(steady.median, 1.0);
  EXPECT_EQ(summarize_samples({1, 1.01, 0.99, 1, 2.5, 1.01, 0.99, 1}).outliers, 1u);
  EXPECT_TRUE(summarize_samples({1.00, 1.01, 0.99, 1.0, 1.0, 1.30, 1.31, 1.29, 1.3, 1.3}).drifts);
}

TEST(Statistics, IntervalHoldsTheMedianAndNarrowsWithSamples) {
  const SampleSummary few = summarize_samples(noisy(10, 1, 8, 3));
  const SampleSummary many = summarize_samples(noisy(10, 1, 200, 3));
  EXPECT_LE(few.interval.low, few.median);
  EXPECT_GE(few.interval.high, few.median);
  EXPECT_LT(many.interval.high - many.interval.low, few.interval.high - few.interval.low);
}

TEST(Statistics, TheSameSamplesGiveTheSameDigits) {
  const auto a = noisy(10, 1, 9, 5), b = noisy(11, 1, 9, 6);
  EXPECT_EQ(ratio_of_medians(a, b).interval.low, ratio_of_medians(a, b).interval.low);
}

TEST(Statistics, IntervalOfTheRatioCoversTheTruthMostOfTheTime) {
  int covered = 0;
  constexpr int kTimes = 200;
  for (unsigned i = 0; i < kTimes; ++i) {
    const Ratio ratio = ratio_of_medians(noisy(10, 1, 15, 2 * i + 1), noisy(8, 1, 15, 2 * i + 2));
    covered += ratio.interval.low <= 1.25 && 1.25 <= ratio.interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, kTimes * 80 / 100);
  EXPECT_LT(covered, kTimes);
}

TEST(Statistics, FasterOnlyWhenTheIntervalSaysSo) {
  EXPECT_TRUE(is_faster(noisy(8, 0.1, 6, 1), noisy(9, 0.1, 6, 2)));
  EXPECT_FALSE(is_faster(noisy(9, 0.1, 6, 1), noisy(8, 0.1, 6, 2)));
  EXPECT_FALSE(is_faster({8.9, 9.3, 8.7}, {9.0, 8.8, 9.4}));
  EXPECT_FALSE(is_faster({1, 1}, {9, 9})) << "two samples show nothing";
}

}  // namespace
}  // namespace tuner
