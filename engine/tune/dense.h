// Dense: y = x · Wᵀ + b on rows in host memory, and its gradients.
#pragma once
#include <cstdint>

namespace engine {

// Places of one layer in a vector of parameters: W [out, in], then b [out].
struct Dense {
  int64_t in = 0, out = 0;
  int64_t first = 0;

  int64_t elements() const { return out * (in + 1); }

  void forward(const float* parameters, const float* x, int64_t rows, float* y) const {
    const float* weight = parameters + first;
    const float* bias = weight + out * in;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        float sum = bias[o];
        for (int64_t i = 0; i < in; ++i) sum += weight[o * in + i] * x[r * in + i];
        y[r * out + o] = sum;
      }
  }
  // Adds to the gradients of the parameters and of x.
  void backward(const float* parameters, const float* x, const float* grad_y, int64_t rows,
                float* grad_parameters, float* grad_x) const {
    const float* weight = parameters + first;
    float* grad_weight = grad_parameters + first;
    float* grad_bias = grad_weight + out * in;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        const float g = grad_y[r * out + o];
        grad_bias[o] += g;
        for (int64_t i = 0; i < in; ++i) {
          grad_weight[o * in + i] += g * x[r * in + i];
          grad_x[r * in + i] += g * weight[o * in + i];
        }
      }
  }
};

}  // namespace engine
