// Grid: which rank stands where on the axes of the process grid, in Megatron's order.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/plan/parallel_plan.h"

namespace engine {

// The order of the axes from the fastest-varying to the slowest: tensor ranks are neighbours.
enum class Axis : uint8_t { tensor, context, data, pipeline };
constexpr int kAxes = 4;
std::string_view name_of(Axis axis);  // "tp", "cp", "dp", "pp"

class Grid {
 public:
  Grid(int tp, int cp, int dp, int pp) : sizes_{tp, cp, dp, pp} {}
  explicit Grid(const ParallelPlan& plan) : Grid(plan.tp, plan.cp, plan.dp, plan.pp) {}

  int world() const { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }
  int size(Axis axis) const { return sizes_[static_cast<int>(axis)]; }
  // Distance in ranks between neighbours on the axis.
  int stride(Axis axis) const;
  int coordinate(int rank, Axis axis) const { return rank / stride(axis) % size(axis); }
  // The rank with the same coordinates but for `axis`.
  int with_coordinate(int rank, Axis axis, int coordinate) const;
  // The ranks that share all other coordinates, in order of their coordinate.
  std::vector<int> group(int rank, Axis axis) const;
  // How many nodes of `gpus_per_node` consecutive ranks a group of the axis touches, and how many
  // of its ranks share a node.
  struct Placement {
    int nodes = 1;
    int ranks_per_node = 1;
  };
  Placement placement(Axis axis, int gpus_per_node) const;

 private:
  int sizes_[kAxes];
};

}  // namespace engine
