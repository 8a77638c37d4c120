// What an op requires of its operands.
#include "kernels/check.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kernels {

void reject(std::string_view op, std::string_view requirement) {
  throw std::logic_error(fmt::format("kernel {}: {}", op, requirement));
}

const Require& Require::shape(const ConstView& view, DType type, int64_t rows, int64_t cols,
                              std::string_view name) const {
  if (!view.empty() && view.type == type && view.rows == rows && view.cols == cols) return *this;
  reject(op_, fmt::format("{} must be {}[{}, {}], not {}", name, name_of(type), rows, cols,
                          view.empty() ? "left out"
                                       : fmt::format("{}[{}, {}]", name_of(view.type), view.rows,
                                                     view.cols)));
}

}  // namespace kernels
