// The arithmetic of reductions: element by element, in the order of the sources.
#pragma once
#include <span>

#include "engine/comm/communicator.h"

namespace engine {

// target[i] = source[0][i] ∘ source[1][i] ∘ … for i < count, for every target. Sums of bf16 are
// taken in f32 and rounded once, to nearest even. A maximum is NaN where any source is. A target
// may be one of the sources; other overlap is an error of the caller.
void reduce_in_order(std::span<const void* const> sources, std::span<void* const> targets,
                     int64_t count, Element element, Reduction reduction);

// Part `index` of `parts` nearly equal parts of count elements; parts begin at whole cache lines.
struct Slice {
  int64_t first = 0;
  int64_t count = 0;
};
Slice slice_of(int64_t count, int parts, int index);

}  // namespace engine
