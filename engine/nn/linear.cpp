// y = x · Wᵀ + b with this rank's slice of W, and its gradients.
#include "engine/nn/linear.h"

#include "engine/base/errors.h"

namespace engine {

JoinedParameters::JoinedParameters(std::initializer_list<const Parameter*> parts) {
  for (const Parameter* part : parts) {
    if (first_ == nullptr) {
      first_ = part;
      rows_ = part->rows;
      columns_ = part->columns;
      continue;
    }
    expect(part->unit == first_->unit && part->offset == first_->offset + rows_ * columns_,
           "joined parameters stand behind each other");
    if (first_->rows == 1) {
      columns_ += part->columns;
    } else {
      expect(part->columns == columns_, "joined matrices have equal columns");
      rows_ += part->rows;
    }
  }
}

void Linear::forward(LayerContext& context, ConstView x, View y) const {
  Matmul product;
  product.a = x;
  product.b = weight.weight();
  product.c = y;
  product.transpose_b = true;
  if (bias) product.bias = bias.weight();
  context.device().matmul(product);
}

void Linear::input_gradient(LayerContext& context, ConstView grad_y, View grad_x) const {
  Matmul product;
  product.a = grad_y;
  product.b = weight.weight();
  product.c = grad_x;
  context.device().matmul(product);
}

void Linear::parameter_gradients(LayerContext& context, ConstView grad_y, ConstView x) const {
  if (weight.is_frozen()) return;
  Matmul product;
  product.a = grad_y;
  product.b = x;
  product.c = weight.gradient();
  product.transpose_a = true;
  product.beta = 1;
  context.device().matmul(product);
  if (bias) context.kernels().column_sum(grad_y, bias.gradient());
}

}  // namespace engine
