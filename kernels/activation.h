// Activation functions, with a bias added before or multiplied by a gate.
#pragma once
#include "kernels/elementwise.h"

namespace kernels {

enum class Activation : uint8_t { gelu, gelu_tanh, relu, silu };

// x · Φ(x) with the normal distribution function Φ (Hendrycks and Gimpel 2016).
struct Gelu {
  template <class A>
  static HOST_DEVICE A value(A x) {
    return A(0.5) * x * (A(1) + error_function(x * A(0.70710678118654752)));
  }
  template <class A>
  static HOST_DEVICE A slope(A x) {
    const A density = A(0.39894228040143268) * exponential(A(-0.5) * x * x);
    return A(0.5) * (A(1) + error_function(x * A(0.70710678118654752))) + x * density;
  }
};

// The same with Φ(x) ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 = sigmoid(2 √(2/π) (…)).
struct GeluTanh {
  template <class A>
  static HOST_DEVICE A value(A x) {
    return x * sigmoid(A(1.5957691216057308) * (x + A(0.044715) * x * x * x));
  }
  template <class A>
  static HOST_DEVICE A slope(A x) {
    const A s = sigmoid(A(1.5957691216057308) * (x + A(0.044715) * x * x * x));
    return s + x * s * (A(1) - s) * A(1.5957691216057308) * (A(1) + A(0.134145) * x * x);
  }
};

struct Relu {
  template <class A>
  static HOST_DEVICE A value(A x) {
    return x > 0 ? x : (x != x ? x : A(0));
  }
  template <class A>
  static HOST_DEVICE A slope(A x) {
    return x > 0 ? A(1) : A(0);
  }
};

// x · sigmoid(x) (Elfwing et al. 2017).
struct Silu {
  template <class A>
  static HOST_DEVICE A value(A x) {
    return x * sigmoid(x);
  }
  template <class A>
  static HOST_DEVICE A slope(A x) {
    const A s = sigmoid(x);
    return s * (A(1) + x * (A(1) - s));
  }
};

// dst = F(src + bias).
template <class T, class F>
struct BiasActivationForward {
  using A = Arithmetic<T>;
  Rows<const T> src, bias;  // bias may be absent
  Rows<T> dst;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const T* x = src[tile.row] + tile.first;
    T* y = dst[tile.row] + tile.first;
    if (bias) {
      const T* b = bias[0] + tile.first;
      each(group, tile.count, [&](int64_t c) { y[c] = T(F::value(A(x[c]) + A(b[c]))); });
    } else {
      each(group, tile.count, [&](int64_t c) { y[c] = T(F::value(A(x[c]))); });
    }
  }
};

// grad_src = grad_dst · F'(src + bias); the bias's gradient is the column sum of grad_src.
template <class T, class F>
struct BiasActivationBackward {
  using A = Arithmetic<T>;
  Rows<const T> grad_dst, src, bias;  // bias may be absent
  Rows<T> grad_src;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const T* dy = grad_dst[tile.row] + tile.first;
    const T* x = src[tile.row] + tile.first;
    T* dx = grad_src[tile.row] + tile.first;
    if (bias) {
      const T* b = bias[0] + tile.first;
      each(group, tile.count,
           [&](int64_t c) { dx[c] = T(A(dy[c]) * F::slope(A(x[c]) + A(b[c]))); });
    } else {
      each(group, tile.count, [&](int64_t c) { dx[c] = T(A(dy[c]) * F::slope(A(x[c]))); });
    }
  }
};

// dst = F(gate) · up (Shazeer 2020; SwiGLU with silu).
template <class T, class F>
struct GatedForward {
  using A = Arithmetic<T>;
  Rows<const T> gate, up;
  Rows<T> dst;
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const T* g = gate[tile.row] + tile.first;
    const T* u = up[tile.row] + tile.first;
    T* y = dst[tile.row] + tile.first;
    each(group, tile.count, [&](int64_t c) { y[c] = T(F::value(A(g[c])) * A(u[c])); });
  }
};

template <class T, class F>
struct GatedBackward {
  using A = Arithmetic<T>;
  Rows<const T> grad_dst, gate, up;
  Rows<T> grad_gate, grad_up;  // may be gate and up themselves
  Tiling tiling;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Tile tile = tiling[item];
    const T* dy = grad_dst[tile.row] + tile.first;
    const T* g = gate[tile.row] + tile.first;
    const T* u = up[tile.row] + tile.first;
    T* dg = grad_gate[tile.row] + tile.first;
    T* du = grad_up[tile.row] + tile.first;
    each(group, tile.count, [&](int64_t c) {
      const A x = A(g[c]), y = A(u[c]), d = A(dy[c]);
      dg[c] = T(d * y * F::slope(x));
      du[c] = T(d * F::value(x));
    });
  }
};

}  // namespace kernels
