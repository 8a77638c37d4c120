// Matrix products by plain loops.
#include "engine/device/plain_matmul.h"

#include <vector>

namespace engine {
namespace {

// Row i of one product. The innermost loop runs along the row and, unless b is transposed, along b.
template <class T, class C>
void multiply_row(const Matmul& p, const T* a, const T* b, C* c, int64_t i,
                  std::vector<kernels::Arithmetic<T>>& sums) {
  using A = kernels::Arithmetic<T>;
  const int64_t a_row = p.transpose_a ? 1 : p.a.stride, a_col = p.transpose_a ? p.a.stride : 1;
  const int64_t b_row = p.transpose_b ? 1 : p.b.stride, b_col = p.transpose_b ? p.b.stride : 1;
  const T* bias = static_cast<const T*>(p.bias.data);
  C* row = c + i * p.c.stride;
  A* sum = sums.data();
  for (int64_t j = 0; j < p.n(); ++j)
    sum[j] = (p.beta == 0 ? A(0) : A(p.beta) * A(row[j])) + (bias != nullptr ? A(bias[j]) : A(0));
  for (int64_t k = 0; k < p.k(); ++k) {
    const A factor = A(p.alpha) * A(a[i * a_row + k * a_col]);
    for (int64_t j = 0; j < p.n(); ++j) sum[j] += factor * A(b[k * b_row + j * b_col]);
  }
  for (int64_t j = 0; j < p.n(); ++j) row[j] = C(sum[j]);
}

template <class T, class C>
void multiply_all(const Matmul& p) {
  std::vector<kernels::Arithmetic<T>> sums(static_cast<size_t>(p.n()));
  for (int64_t batch = 0; batch < p.batch; ++batch)
    for (int64_t i = 0; i < p.m(); ++i)
      multiply_row(p, static_cast<const T*>(p.a.data) + batch * p.a_step,
                   static_cast<const T*>(p.b.data) + batch * p.b_step,
                   static_cast<C*>(p.c.data) + batch * p.c_step, i, sums);
}

}  // namespace

void multiply_plainly(const Matmul& p) {
  if (p.a.type == DType::f64) return multiply_all<double, double>(p);
  if (p.a.type == DType::f32) return multiply_all<float, float>(p);
  if (p.c.type == DType::f32) return multiply_all<kernels::bfloat16, float>(p);
  multiply_all<kernels::bfloat16, kernels::bfloat16>(p);
}

}  // namespace engine
