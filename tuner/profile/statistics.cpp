// Medians, spreads and bootstrap intervals.
#include "tuner/profile/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/base/errors.h"

namespace tuner {
namespace {

constexpr int kResamples = 999;
constexpr double kTail = 0.05;
constexpr size_t kFewestToCompare = 3;
constexpr double kFarInSpreads = 5;

double median_of_resample(const std::vector<double>& samples, std::mt19937_64& random) {
  std::vector<double> drawn(samples.size());
  for (double& value : drawn) value = samples[random() % samples.size()];
  return median_of(std::move(drawn));
}

engine::Interval percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto tail = static_cast<size_t>(kTail * static_cast<double>(values.size()));
  return {values[tail], values[values.size() - 1 - tail]};
}

bool is_far(double value, double median, double spread) {
  return std::abs(value - median) > std::max(kFarInSpreads * spread, 0.1 * median);
}

// The spread is that within the halves: a drift widens that of the whole.
bool is_drifting(const std::vector<double>& samples) {
  if (samples.size() < 8) return false;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  const std::vector<double> first(samples.begin(), middle), second(middle, samples.end());
  const double spread = std::max(robust_spread(first), robust_spread(second));
  const double error = 1.25 * spread * std::sqrt(4.0 / static_cast<double>(samples.size()));
  return std::abs(median_of(second) - median_of(first)) >
         std::max(3 * error, 0.05 * median_of(first));
}

}  // namespace

double median_of(std::vector<double> values) {
  engine::expect(!values.empty(), "at least one value");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double robust_spread(const std::vector<double>& values) {
  const double median = median_of(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - median));
  return 1.4826 * median_of(std::move(distances));
}

size_t warm_up_length(const std::vector<double>& samples) {
  size_t length = 0;
  while (3 * (length + 1) <= samples.size()) {
    const std::vector<double> rest(samples.begin() + static_cast<std::ptrdiff_t>(length) + 1,
                                   samples.end());
    const double slowest = *std::max_element(rest.begin(), rest.end());
    if (samples[length] <= slowest ||
        !is_far(samples[length], median_of(rest), robust_spread(rest)))
      break;
    ++length;
  }
  return length;
}

SampleSummary summarize_samples(const std::vector<double>& samples) {
  SampleSummary summary;
  summary.warm_up = warm_up_length(samples);
  const std::vector<double> kept(samples.begin() + static_cast<std::ptrdiff_t>(summary.warm_up),
                                 samples.end());
  summary.samples = kept.size();
  summary.median = median_of(kept);
  summary.spread = robust_spread(kept);
  summary.outliers = static_cast<size_t>(std::count_if(kept.begin(), kept.end(), [&](double x) {
    return is_far(x, summary.median, summary.spread);
  }));
  summary.drifts = is_drifting(kept);
  std::mt19937_64 random(1);
  std::vector<double> medians;
  for (int i = 0; i < kResamples; ++i) medians.push_back(median_of_resample(kept, random));
  summary.interval = percentiles(std::move(medians));
  return summary;
}

Ratio ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b) {
  std::mt19937_64 random(1);
  std::vector<double> ratios;
  for (int i = 0; i < kResamples; ++i) {
    const double above = median_of_resample(a, random);
    ratios.push_back(above / median_of_resample(b, random));
  }
  return {median_of(a) / median_of(b), percentiles(std::move(ratios))};
}

double log_sigma_of(const engine::Interval& interval) {
  constexpr double kWidth = 2 * 1.645;
  return interval.low > 0 ? std::log(interval.high / interval.low) / kWidth : 0;
}

bool is_faster(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < kFewestToCompare || b.size() < kFewestToCompare) return false;
  return ratio_of_medians(a, b).interval.high < 1;
}

}  // namespace tuner
