// Splits the world along the axes of the process grid.
#include "engine/comm/world.h"

#include <numeric>

#include "engine/base/errors.h"

namespace engine {
namespace {

// The ranks that share the tensor and pipeline coordinates of `rank`, context ranks next to each
// other.
std::vector<int> gradient_group(const Grid& grid, int rank) {
  std::vector<int> members;
  for (const int replica : grid.group(grid.with_coordinate(rank, Axis::context, 0), Axis::data))
    for (const int member : grid.group(replica, Axis::context)) members.push_back(member);
  return members;
}

std::vector<int> embedding_group(const Grid& grid, int rank) {
  const std::vector<int> stages = grid.group(rank, Axis::pipeline);
  if (rank == stages.front() || rank == stages.back()) return {stages.front(), stages.back()};
  return {rank};
}

}  // namespace

World::World(Communicator& ranks, const Grid& grid) : grid_(grid) {
  expect(ranks.size() == grid.world(), "as many ranks as the grid has");
  const auto group = [&](const char* axis, const std::vector<int>& members) {
    return std::make_unique<MeteredCommunicator>(ranks.split(members), axis, meter_);
  };
  const int rank = ranks.rank();
  std::vector<int> everyone(static_cast<size_t>(ranks.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  all_ = group("world", everyone);
  tensor_ = group("tp", grid.group(rank, Axis::tensor));
  context_ = group("cp", grid.group(rank, Axis::context));
  data_ = group("dp", grid.group(rank, Axis::data));
  gradient_ = group("dp", gradient_group(grid, rank));
  forward_ = group("pp", grid.group(rank, Axis::pipeline));
  backward_ = group("pp", grid.group(rank, Axis::pipeline));
  if (grid.size(Axis::pipeline) > 1) {
    embedding_ = group("embedding", embedding_group(grid, rank));
    if (embedding_->size() == 1) embedding_.reset();
  }
}

}  // namespace engine
