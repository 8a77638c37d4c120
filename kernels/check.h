// What an op requires of its operands.
#pragma once
#include <string_view>

#include "kernels/view.h"

namespace kernels {

// Throws std::logic_error: a wrong call is our own mistake.
[[noreturn]] void reject(std::string_view op, std::string_view requirement);

// The checks of one op.
class Require {
 public:
  explicit Require(std::string_view op) : op_(op) {}

  const Require& that(bool holds, std::string_view requirement) const {
    if (!holds) reject(op_, requirement);
    return *this;
  }
  // The operand exists with this type and shape.
  const Require& shape(const ConstView& view, DType type, int64_t rows, int64_t cols,
                       std::string_view name) const;
  // The same, or it is left out.
  const Require& optional(const ConstView& view, DType type, int64_t rows, int64_t cols,
                          std::string_view name) const {
    return view.empty() ? *this : shape(view, type, rows, cols, name);
  }

 private:
  std::string_view op_;
};

}  // namespace kernels
