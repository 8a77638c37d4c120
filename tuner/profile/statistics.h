// Statistics of step times: warm-up, median, spread, and when one plan is faster than another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/outcome.h"

namespace tuner {

double median_of(std::vector<double> values);  // of at least one
// 1.4826 · median |x − median|: the standard deviation of a normal distribution, but deaf to
// outliers.
double robust_spread(const std::vector<double>& values);

// Leading samples that are slower than all that follows them by more than the spread explains; at
// most a third.
size_t warm_up_length(const std::vector<double>& samples);

struct SampleSummary {
  size_t samples = 0;  // behind the warm-up
  size_t warm_up = 0;  // dropped
  double median = 0;
  double spread = 0;
  engine::Interval interval;  // 90 %, of the median
  size_t outliers = 0;        // further than five spreads and 10 % from the median
  bool drifts = false;        // the second half differs from the first beyond the spread
};
// Of the samples in the order in which they were taken, at least one.
SampleSummary summarize_samples(const std::vector<double>& samples);

// The standard deviation of the logarithm of which this is the 90 % interval; 0 where it reaches
// 0 or below.
double log_sigma_of(const engine::Interval& interval);

// The ratio of two medians with its 90 % interval, by the percentile bootstrap (Efron 1979). The
// same samples give the same digits.
struct Ratio {
  double value = 1;
  engine::Interval interval;
};
Ratio ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b);

// Whether the samples say that `a` takes less time than `b`: at least three of each, and the whole
// interval of the ratio below 1.
bool is_faster(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tuner
