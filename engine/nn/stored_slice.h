// Where a checkpoint holds a rank's slice of a parameter.
#pragma once
#include "engine/checkpoint/tensor_slice.h"
#include "engine/nn/parameter.h"

namespace engine {

inline TensorSlice stored_slice(const Parameter& p) {
  return {p.name, p.checkpoint_shape, p.transposed, p.first_row, p.first_column, p.rows, p.columns};
}

}  // namespace engine
