// One direction of a long short-term memory.
#include "engine/tune/lstm.h"

#include <algorithm>
#include <cmath>

namespace engine {
namespace {

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

std::vector<float> Lstm::forward(const float* parameters, const std::vector<float>& x,
                                 int64_t rows) {
  rows_ = rows;
  const int64_t w = width_, all = gates_.in, in = all - w;
  inputs_.assign(static_cast<size_t>(rows * all), 0);
  activated_.assign(static_cast<size_t>(rows * 4 * w), 0);
  cells_.assign(static_cast<size_t>(rows * w), 0);
  std::vector<float> states(static_cast<size_t>(rows * w));
  for (int64_t step = 0; step < rows; ++step) {
    float* input = &inputs_[static_cast<size_t>(step * all)];
    std::copy_n(&x[static_cast<size_t>(place(step) * in)], in, input);
    if (step > 0) std::copy_n(&states[static_cast<size_t>(place(step - 1) * w)], w, input + in);
    float* gates = &activated_[static_cast<size_t>(step * 4 * w)];
    gates_.forward(parameters, input, 1, gates);
    for (int64_t c = 0; c < w; ++c) {
      for (const int64_t gate : {0, 1, 3}) gates[gate * w + c] = logistic(gates[gate * w + c]);
      gates[2 * w + c] = std::tanh(gates[2 * w + c]);
      const float before = step > 0 ? cells_[static_cast<size_t>((step - 1) * w + c)] : 0;
      const float cell = gates[w + c] * before + gates[c] * gates[2 * w + c];
      cells_[static_cast<size_t>(step * w + c)] = cell;
      states[static_cast<size_t>(place(step) * w + c)] = gates[3 * w + c] * std::tanh(cell);
    }
  }
  return states;
}

void Lstm::backward(const float* parameters, const std::vector<float>& grad_states,
                    float* grad_parameters, std::vector<float>& grad_x) const {
  const int64_t w = width_, all = gates_.in, in = all - w;
  std::vector<float> grad_state(static_cast<size_t>(w)), grad_cell(static_cast<size_t>(w));
  for (int64_t step = rows_; step-- > 0;) {
    const float* gates = &activated_[static_cast<size_t>(step * 4 * w)];
    std::vector<float> grad_gates(static_cast<size_t>(4 * w));
    for (int64_t c = 0; c < w; ++c) {
      const auto at = static_cast<size_t>(c);
      const float i = gates[c], f = gates[w + c], g = gates[2 * w + c], o = gates[3 * w + c];
      const float before = step > 0 ? cells_[static_cast<size_t>((step - 1) * w + c)] : 0;
      const float shown = std::tanh(cells_[static_cast<size_t>(step * w + c)]);
      const float dh = grad_state[at] + grad_states[static_cast<size_t>(place(step) * w + c)];
      const float dc = grad_cell[at] + dh * o * (1 - shown * shown);
      grad_gates[at] = dc * g * i * (1 - i);
      grad_gates[static_cast<size_t>(w + c)] = dc * before * f * (1 - f);
      grad_gates[static_cast<size_t>(2 * w + c)] = dc * i * (1 - g * g);
      grad_gates[static_cast<size_t>(3 * w + c)] = dh * shown * o * (1 - o);
      grad_cell[at] = dc * f;
    }
    std::vector<float> grad_input(static_cast<size_t>(all));
    gates_.backward(parameters, &inputs_[static_cast<size_t>(step * all)], grad_gates.data(), 1,
                    grad_parameters, grad_input.data());
    for (int64_t c = 0; c < in; ++c)
      grad_x[static_cast<size_t>(place(step) * in + c)] += grad_input[static_cast<size_t>(c)];
    std::copy_n(grad_input.begin() + in, w, grad_state.begin());
  }
}

}  // namespace engine
