// How far a computed value may be from the exact one, by the type it is stored in.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/view.h"

namespace testing_support {

// An element may differ by `relative` of itself plus `relative` of the largest element: rounding of
// the result, and rounding in sums over elements of that size.
struct Tolerance {
  double relative;
};
inline Tolerance tolerance_of(kernels::DType type) {
  switch (type) {
    case kernels::DType::f32:
      return {5e-6};
    case kernels::DType::bf16:
      return {6e-3};  // 2^-8 for the result, 2^-9 for what is stored between
    case kernels::DType::f64:
      return {1e-12};
    case kernels::DType::i32:
      return {0};
  }
  return {0};
}

// Of a directional derivative by central differences, relative to its size.
constexpr double kGradientTolerance = 1e-6;

}  // namespace testing_support
