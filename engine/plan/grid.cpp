// The process grid in Megatron's order.
#include "engine/plan/grid.h"

#include <algorithm>
#include <set>

namespace engine {

std::string_view name_of(Axis axis) {
  constexpr std::string_view kNames[kAxes] = {"tp", "cp", "dp", "pp"};
  return kNames[static_cast<int>(axis)];
}

int Grid::stride(Axis axis) const {
  int stride = 1;
  for (int faster = 0; faster < static_cast<int>(axis); ++faster) stride *= sizes_[faster];
  return stride;
}

int Grid::with_coordinate(int rank, Axis axis, int coordinate) const {
  return rank + (coordinate - this->coordinate(rank, axis)) * stride(axis);
}

std::vector<int> Grid::group(int rank, Axis axis) const {
  std::vector<int> ranks(static_cast<size_t>(size(axis)));
  for (int i = 0; i < size(axis); ++i)
    ranks[static_cast<size_t>(i)] = with_coordinate(rank, axis, i);
  return ranks;
}

Grid::Placement Grid::placement(Axis axis, int gpus_per_node) const {
  const int spacing = stride(axis);
  const int members = size(axis);
  const int per_node = std::clamp(gpus_per_node / spacing, 1, members);
  return {(members + per_node - 1) / per_node, per_node};
}

}  // namespace engine
