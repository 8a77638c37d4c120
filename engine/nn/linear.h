// Linear: y = x · Wᵀ + b with this rank's slice of W, and its gradients.
#pragma once
#include <initializer_list>

#include "engine/nn/layer_context.h"
#include "engine/nn/parameter.h"

namespace engine {

// One matrix or vector made of parameters that stand behind each other in one unit (query, key and
// value; gate and up). May be empty.
class JoinedParameters {
 public:
  JoinedParameters() = default;
  JoinedParameters(std::initializer_list<const Parameter*> parts);

  explicit operator bool() const { return first_ != nullptr; }
  bool is_frozen() const { return first_->is_frozen(); }
  View weight() const { return joined(first_->weight); }      // T[rows, columns]
  View gradient() const { return joined(first_->gradient); }  // A[rows, columns]

 private:
  View joined(const View& view) const { return {view.data, view.type, rows_, columns_}; }
  const Parameter* first_ = nullptr;
  int64_t rows_ = 0, columns_ = 0;
};

// Column-parallel when the rank holds some rows of W, row-parallel when it holds some columns: then
// results are partial sums, and a bias is added behind the sum (see Branch).
struct Linear {
  JoinedParameters weight;  // [out, in]
  JoinedParameters bias;    // [1, out]

  // x T[tokens, in], y T[tokens, out].
  void forward(LayerContext& context, ConstView x, View y) const;
  // grad_x = grad_y · W.
  void input_gradient(LayerContext& context, ConstView grad_y, View grad_x) const;
  // Adds to the gradients of W and b, unless they are frozen.
  void parameter_gradients(LayerContext& context, ConstView grad_y, ConstView x) const;
};

}  // namespace engine
