// OptimizerSlice: the part of one parameter's optimizer state that this rank keeps.
#pragma once
#include <cstdint>

#include "engine/nn/parameter.h"

namespace engine {

// Elements [first, first + count) of the parameter's slice in row-major order; all of them with
// ZeRO 0. Data of type A (f32); master is where the weights themselves are kept without rounding.
struct OptimizerSlice {
  const Parameter* parameter = nullptr;
  int64_t first = 0;
  int64_t count = 0;
  View master, mean, square;  // [1, count]
};

}  // namespace engine
