// Storage types, the arithmetic each computes in, and elementary functions that vectorise.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/group.h"

namespace kernels {

// The upper half of an IEEE float: 8 exponent bits, 7 of the mantissa. Converts to float exactly;
// from float it rounds to nearest, ties to even, and keeps NaN a NaN.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  HOST_DEVICE explicit bfloat16(float value) {
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
#endif
  }
  HOST_DEVICE operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

// The type in which values stored as T are computed, reduced and differentiated: float for f32 and
// bf16, double for f64. Statistics and parameter gradients are stored in it.
template <class T>
struct ArithmeticOf {
  using type = float;
};
template <>
struct ArithmeticOf<double> {
  using type = double;
};
template <class T>
using Arithmetic = typename ArithmeticOf<T>::type;

// e^x. f32: relative error below 2e-7; exact 0 below the smallest normal number, the value at 88.7
// above that, NaN kept. Range reduction by the nearest multiple of ln 2, then the Taylor series.
HOST_DEVICE float exponential(float x) {
  constexpr float kLowest = -87.33654f, kHighest = 88.72283f;  // ln of the normal range
  const float below = x > kHighest ? kHighest : x;
#if defined(__CUDA_ARCH__)
  return x < kLowest ? 0.0f : expf(below);  // an instruction of its own does most of it
#else
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  const float inside = below < kLowest ? kLowest : below;
  const float shifted = inside * 1.44269504f + kShift;
  const float n = shifted - kShift;
  // ln 2 in two parts, of which the first times n is exact.
  const float r = (inside - n * 0.693359375f) + n * 2.12194440e-4f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  // 2^n goes into the exponent; a quiet NaN shifts out as 0 and stays as it is.
  const uint32_t power = std::bit_cast<uint32_t>(shifted) << 23;
  const float value = std::bit_cast<float>(std::bit_cast<uint32_t>(series) + power);
  return x < kLowest ? 0.0f : value;
#endif
}
HOST_DEVICE double exponential(double x) { return exp(x); }

HOST_DEVICE float square_root(float x) { return sqrtf(x); }
HOST_DEVICE double square_root(double x) { return sqrt(x); }
HOST_DEVICE float logarithm(float x) { return logf(x); }
HOST_DEVICE double logarithm(double x) { return log(x); }

// 1 / (1 + e^-x).
template <class A>
HOST_DEVICE A sigmoid(A x) {
  return A(1) / (A(1) + exponential(-x));
}

// The error function. f32: absolute error below 6e-7; Abramowitz and Stegun 1964, formula 7.1.26.
HOST_DEVICE float error_function(float x) {
  const float size = x < 0 ? -x : x;
  const float t = 1.0f / (1.0f + 0.3275911f * size);
  float series = 1.061405429f;
  series = series * t - 1.453152027f;
  series = series * t + 1.421413741f;
  series = series * t - 0.284496736f;
  series = series * t + 0.254829592f;
  const float value = 1.0f - series * t * exponential(-size * size);
  return x < 0 ? -value : value;
}
HOST_DEVICE double error_function(double x) { return erf(x); }

template <class A>
HOST_DEVICE A smaller(A a, A b) {
  return b < a ? b : a;
}
template <class A>
HOST_DEVICE A larger(A a, A b) {
  return a < b ? b : a;
}

}  // namespace kernels
