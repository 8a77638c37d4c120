// Matrix products in double, for the checks of gradients; oneDNN has none.
#include "engine/device/matmul_f64.h"

#include <algorithm>

namespace engine {
namespace {

// Row i of c. The innermost loop runs along c and, unless b is transposed, along b.
void multiply_row(const Matmul& p, const double* a, const double* b, double* c, int64_t i) {
  const int64_t a_row = p.transpose_a ? 1 : p.a.stride, a_col = p.transpose_a ? p.a.stride : 1;
  const int64_t b_row = p.transpose_b ? 1 : p.b.stride, b_col = p.transpose_b ? p.b.stride : 1;
  const double* bias = static_cast<const double*>(p.bias.data);
  double* row = c + i * p.c.stride;
  for (int64_t j = 0; j < p.n(); ++j)
    row[j] = (p.beta == 0 ? 0 : p.beta * row[j]) + (bias != nullptr ? bias[j] : 0);
  for (int64_t k = 0; k < p.k(); ++k) {
    const double factor = p.alpha * a[i * a_row + k * a_col];
    for (int64_t j = 0; j < p.n(); ++j) row[j] += factor * b[k * b_row + j * b_col];
  }
}

}  // namespace

void multiply_f64(const Matmul& p) {
  for (int64_t batch = 0; batch < p.batch; ++batch)
    for (int64_t i = 0; i < p.m(); ++i)
      multiply_row(p, static_cast<const double*>(p.a.data) + batch * p.a_step,
                   static_cast<const double*>(p.b.data) + batch * p.b_step,
                   static_cast<double*>(p.c.data) + batch * p.c_step, i);
}

}  // namespace engine
