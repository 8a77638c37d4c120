// Order statistics and rank correlation of small samples.
#pragma once
#include <string>
#include <vector>

namespace tuner {

// Between the two nearest values; the sample must not be empty.
double quantile(std::vector<double> values, double share);
double median(std::vector<double> values);  // 0 of nothing

// Spearman's rank correlation, ties sharing their rank; 0 where all values are equal.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

// A fold of `folds` for a name; the same on every platform.
unsigned fold_of(const std::string& name, unsigned folds);

}  // namespace tuner
