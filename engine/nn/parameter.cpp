// Which parameters a rank holds, in units.
#include "engine/nn/parameter.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace engine {

int64_t padding_rows(const Parameter& p) {
  if (p.rows == 1) return 0;
  const int64_t whole = p.checkpoint_shape[p.transposed ? 1 : 0];
  return std::clamp<int64_t>(p.first_row + p.rows - whole, 0, p.rows);
}

int64_t ParameterSet::begin_unit() {
  units_.emplace_back();
  return static_cast<int64_t>(units_.size()) - 1;
}

Parameter& ParameterSet::add(Parameter parameter) {
  expect(!units_.empty(), "a parameter belongs to a unit");
  ParameterUnit& unit = units_.back();
  parameter.unit = static_cast<int64_t>(units_.size()) - 1;
  parameter.offset = unit.elements;
  unit.elements += parameter.elements();
  unit.parameters.push_back(&parameters_.emplace_back(std::move(parameter)));
  return *unit.parameters.back();
}

int64_t ParameterSet::elements() const {
  int64_t count = 0;
  for (const ParameterUnit& unit : units_) count += unit.elements;
  return count;
}

}  // namespace engine
