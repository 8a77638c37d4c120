// Lstm: one direction of a long short-term memory over rows in host memory, and its gradients
// (Hochreiter and Schmidhuber 1997, with forget gates).
#pragma once
#include <vector>

#include "engine/tune/dense.h"

namespace engine {

class Lstm {
 public:
  // `first`: of its parameters, those of the gates as one Dense of [x, state before].
  Lstm(int64_t in, int64_t width, bool backwards, int64_t first)
      : width_(width), backwards_(backwards), gates_{in + width, 4 * width, first} {}

  int64_t width() const { return width_; }
  const Dense& gates() const { return gates_; }

  // x [rows, in] → states [rows, width].
  std::vector<float> forward(const float* parameters, const std::vector<float>& x, int64_t rows);
  // Adds to the gradients of the parameters and of x [rows, in].
  void backward(const float* parameters, const std::vector<float>& grad_states,
                float* grad_parameters, std::vector<float>& grad_x) const;

 private:
  int64_t place(int64_t step) const { return backwards_ ? rows_ - 1 - step : step; }

  int64_t width_;
  bool backwards_;
  Dense gates_;
  int64_t rows_ = 0;
  // Of the last forward pass, by step: the gates' input, the gates i f g o, cells.
  std::vector<float> inputs_, activated_, cells_;
};

}  // namespace engine
