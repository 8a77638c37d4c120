// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) of the rows of a matrix.
#pragma once
#include "kernels/view.h"

namespace kernels {

// dst = (src - mean) · rstd · gain + bias; without `mean` the norm is an RMS norm. One row a group.
template <class T>
struct NormForward {
  using A = Arithmetic<T>;
  Rows<const T> src, gain, bias;  // bias may be absent
  Rows<T> dst;
  Rows<A> mean, rstd;  // [1, rows]
  int64_t cols;
  double epsilon;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* x = src[row];
    const T* g = gain[0];
    const T* b = bias[0];
    T* y = dst[row];
    const A count = static_cast<A>(cols);
    const A center =
        mean ? sum_each<A>(group, cols, [&](int64_t c) { return A(x[c]); }) / count : 0;
    const A squares = sum_each<A>(group, cols, [&](int64_t c) {
      const A centered = A(x[c]) - center;
      return centered * centered;
    });
    const A scale = A(1) / square_root(squares / count + A(epsilon));
    if (b)
      each(group, cols,
           [&](int64_t c) { y[c] = T((A(x[c]) - center) * scale * A(g[c]) + A(b[c])); });
    else
      each(group, cols, [&](int64_t c) { y[c] = T((A(x[c]) - center) * scale * A(g[c])); });
    if (group.rank() != 0) return;
    if (mean) mean.data[row] = center;
    rstd.data[row] = scale;
  }
};

// The gradient of the input, with x̂ = (x - mean) · rstd and w = grad_dst · gain:
// grad_src = rstd · (w - avg(w) - x̂ · avg(w · x̂)) [+ residual]; without `mean` avg(w) falls away.
template <class T>
struct NormBackward {
  using A = Arithmetic<T>;
  Rows<const T> grad_dst, src, gain, residual;  // residual may be absent
  Rows<const A> mean, rstd;
  Rows<T> grad_src;
  int64_t cols;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* dy = grad_dst[row];
    const T* x = src[row];
    const T* g = gain[0];
    T* dx = grad_src[row];
    const A center = mean ? mean.data[row] : A(0);
    const A scale = rstd.data[row];
    const A count = static_cast<A>(cols);
    const A along =
        sum_each<A>(group, cols,
                    [&](int64_t c) { return A(dy[c]) * A(g[c]) * ((A(x[c]) - center) * scale); }) /
        count;
    const A average =
        mean ? sum_each<A>(group, cols, [&](int64_t c) { return A(dy[c]) * A(g[c]); }) / count : 0;
    const auto gradient = [&](int64_t c) {
      const A normed = (A(x[c]) - center) * scale;
      return scale * (A(dy[c]) * A(g[c]) - average - normed * along);
    };
    if (residual) {
      const T* r = residual[row];
      each(group, cols, [&](int64_t c) { dx[c] = T(gradient(c) + A(r[c])); });
    } else {
      each(group, cols, [&](int64_t c) { dx[c] = T(gradient(c)); });
    }
  }
};

// grad_gain += Σ_rows grad_dst · x̂, grad_bias += Σ_rows grad_dst. A group owns a block of columns
// and adds the rows in order, so the sums do not depend on how columns are shared out.
template <class T>
struct NormParameterGradients {
  using A = Arithmetic<T>;
  Rows<const T> grad_dst, src;
  Rows<const A> mean, rstd;
  Rows<A> grad_gain, grad_bias;  // bias may be absent
  int64_t rows, cols, block;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t index) const {
    const int64_t first = index * block;
    const int64_t width = smaller(block, cols - first);
    A* dg = grad_gain.data + first;
    A* db = grad_bias ? grad_bias.data + first : nullptr;
    for (int64_t row = 0; row < rows; ++row) {
      const T* dy = grad_dst[row] + first;
      const T* x = src[row] + first;
      const A center = mean ? mean.data[row] : A(0);
      const A scale = rstd.data[row];
      if (db)
        each(group, width, [&](int64_t c) {
          dg[c] += A(dy[c]) * ((A(x[c]) - center) * scale);
          db[c] += A(dy[c]);
        });
      else
        each(group, width, [&](int64_t c) { dg[c] += A(dy[c]) * ((A(x[c]) - center) * scale); });
    }
  }
};

}  // namespace kernels
