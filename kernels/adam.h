// AdamW (Loshchilov and Hutter 2017, algorithm 2) on full-precision weights, rounded into the
// model.
#pragma once
#include "kernels/elementwise.h"

namespace kernels {

struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;    // decoupled; 0 for norms and biases by custom
  int64_t step = 1;           // 1 at the first update, for the bias correction
  double gradient_scale = 1;  // clip factor, averaging
};

// The coefficients of one step in the kernel's arithmetic.
template <class A>
struct AdamCoefficients {
  A keep_mean, add_mean, keep_square, add_square, rate, decay, square_correction, epsilon, scale;

  explicit AdamCoefficients(const AdamStep& s)
      : keep_mean(A(s.beta1)),
        add_mean(A(1 - s.beta1)),
        keep_square(A(s.beta2)),
        add_square(A(1 - s.beta2)),
        rate(A(s.learning_rate / (1 - std::pow(s.beta1, static_cast<double>(s.step))))),
        decay(A(s.learning_rate * s.weight_decay)),
        square_correction(A(1 / (1 - std::pow(s.beta2, static_cast<double>(s.step))))),
        epsilon(A(s.epsilon)),
        scale(A(s.gradient_scale)) {}
};

// master, mean and square are updated; weights = master rounded to T (absent when the master
// weights are the model's).
template <class T>
struct Adam {
  using A = Arithmetic<T>;
  Rows<const A> gradient;
  Rows<A> master, mean, square;
  Rows<T> weights;
  AdamCoefficients<A> k;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const A* g = gradient[tile.row] + tile.first;
    A* w = master[tile.row] + tile.first;
    A* m = mean[tile.row] + tile.first;
    A* v = square[tile.row] + tile.first;
    const auto update = [&](int64_t c) {
      const A gradient_now = g[c] * k.scale;
      m[c] = k.keep_mean * m[c] + k.add_mean * gradient_now;
      v[c] = k.keep_square * v[c] + k.add_square * gradient_now * gradient_now;
      const A size = square_root(v[c] * k.square_correction) + k.epsilon;
      w[c] = w[c] - k.decay * w[c] - k.rate * m[c] / size;
      return w[c];
    };
    if (weights) {
      T* rounded = weights[tile.row] + tile.first;
      each(group, tile.count, [&](int64_t c) { rounded[c] = T(update(c)); });
    } else {
      each(group, tile.count, [&](int64_t c) { update(c); });
    }
  }
};

}  // namespace kernels
