// Rotary position embedding (Su et al. 2021, eq. 34), halves of a head as the pairs' two parts.
#pragma once
#include "kernels/view.h"

namespace kernels {

// Row p: cos(p · base^(-2i/dim)) for i in [0, dim/2), then the sines. Computed in double.
template <class A>
struct RotaryTable {
  Rows<A> table;  // [positions, dim]
  int64_t dim;
  double base;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t position) const {
    A* y = table[position];
    const int64_t half = dim / 2;
    each(group, half, [&](int64_t i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
      const double angle = static_cast<double>(position) * pow(base, exponent);
      y[i] = A(cos(angle));
      y[half + i] = A(sin(angle));
    });
  }
};

// Turns the pairs (x[i], x[dim/2 + i]) of every head in place; the columns of a head behind `dim`
// stay. direction -1 turns back, which is the gradient. One token a group.
template <class T>
struct Rotary {
  using A = Arithmetic<T>;
  Rows<T> data;  // [tokens, heads · head_dim]
  Rows<const A> table;
  Rows<const int32_t> positions;  // [1, tokens]
  int64_t heads, head_dim, dim;
  A direction;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t token) const {
    const int64_t half = dim / 2;
    const A* cosine = table[positions.data[token]];
    const A* sine = cosine + half;
    for (int64_t head = 0; head < heads; ++head) {
      T* x = data[token] + head * head_dim;
      T* y = x + half;
      each(group, half, [&](int64_t i) {
        const A a = A(x[i]), b = A(y[i]), s = direction * sine[i];
        x[i] = T(a * cosine[i] - b * s);
        y[i] = T(b * cosine[i] + a * s);
      });
    }
  }
};

}  // namespace kernels
