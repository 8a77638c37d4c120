// The oracle: the operations in double precision, written from their definitions and sharing no
// code with the kernels.
#pragma once
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/support/matrix.h"

namespace oracle {

using testing_support::Values;

inline Values norm(const Values& x, const Values& gain, const Values* bias, bool centered,
                   double eps, Values& mean, Values& rstd) {
  Values y(x.rows, x.cols);
  mean = rstd = Values(1, x.rows);
  for (int64_t r = 0; r < x.rows; ++r) {
    double m = 0, v = 0;
    for (int64_t c = 0; c < x.cols; ++c) m += x(r, c) / static_cast<double>(x.cols);
    if (!centered) m = 0;
    for (int64_t c = 0; c < x.cols; ++c)
      v += std::pow(x(r, c) - m, 2) / static_cast<double>(x.cols);
    mean(0, r) = m;
    rstd(0, r) = 1 / std::sqrt(v + eps);
    for (int64_t c = 0; c < x.cols; ++c)
      y(r, c) = (x(r, c) - m) * rstd(0, r) * gain(0, c) + (bias ? (*bias)(0, c) : 0);
  }
  return y;
}

inline double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
inline double gelu_tanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * std::pow(x, 3))));
}
inline double relu(double x) { return std::max(x, 0.0); }
inline double silu(double x) { return x / (1 + std::exp(-x)); }

// Row by row; the last `cols - visible` columns are 0.
inline Values softmax(const Values& x, double scale, bool causal, int64_t queries) {
  Values y(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    double total = 0;
    const int64_t last = causal ? r % queries + x.cols - queries : x.cols - 1;
    for (int64_t c = 0; c <= last; ++c) total += std::exp(scale * x(r, c));
    for (int64_t c = 0; c <= last; ++c) y(r, c) = std::exp(scale * x(r, c)) / total;
  }
  return y;
}

// op(a) · op(b).
inline Values product(const Values& a, bool transpose_a, const Values& b, bool transpose_b) {
  const int64_t m = transpose_a ? a.cols : a.rows, k = transpose_a ? a.rows : a.cols;
  const int64_t n = transpose_b ? b.rows : b.cols;
  Values c(m, n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t x = 0; x < k; ++x)
        sum += (transpose_a ? a(x, i) : a(i, x)) * (transpose_b ? b(j, x) : b(x, j));
      c(i, j) = sum;
    }
  return c;
}

// Columns [first, first + count) of the rows `row(t)`, t in [0, tokens).
template <class Row>
Values part(const Values& x, int64_t tokens, Row row, int64_t first, int64_t count) {
  Values y(tokens, count);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < count; ++c) y(t, c) = x(row(t), first + c);
  return y;
}

// -ln of the softmax probability of the target of each row.
inline std::vector<double> cross_entropy(const Values& logits, const std::vector<int>& targets) {
  std::vector<double> losses;
  for (int64_t r = 0; r < logits.rows; ++r) {
    double total = 0;
    for (int64_t c = 0; c < logits.cols; ++c) total += std::exp(logits(r, c));
    const int target = targets[static_cast<size_t>(r)];
    losses.push_back(target < 0 ? 0 : std::log(total) - logits(r, target));
  }
  return losses;
}

}  // namespace oracle
