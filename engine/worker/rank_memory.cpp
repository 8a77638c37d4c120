// What the ranks of a run used of their memory.
#include "engine/worker/rank_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <map>

namespace engine {
namespace {

struct RankBytes {
  double stage = 0, peak = 0, resident = 0;
  double uses[kMemoryUses] = {};
  static constexpr int64_t kValues = 3 + kMemoryUses;
};
static_assert(sizeof(RankBytes) == RankBytes::kValues * sizeof(double));

// The most that this process held so far.
double resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

std::vector<RankBytes> gather(World& world, const Meter& meter, int ranks_in_process, bool alone) {
  RankBytes own;
  own.stage = world.coordinate(Axis::pipeline);
  own.peak = static_cast<double>(meter.peak());
  own.resident = resident_bytes() / ranks_in_process;
  for (int use = 0; use < kMemoryUses; ++use)
    own.uses[use] = static_cast<double>(meter.peak(static_cast<MemoryUse>(use)));
  if (alone) return {own};
  std::vector<RankBytes> all(static_cast<size_t>(world.grid().world()));
  world.all().all_gather(
      {&own, RankBytes::kValues, Element::f64},
      {all.data(), RankBytes::kValues * static_cast<int64_t>(all.size()), Element::f64});
  return all;
}

}  // namespace

MemoryOutcome gather_memory(World& world, const Device& device, int ranks_in_process, bool alone) {
  MemoryOutcome memory;
  if (device.capacity() < std::numeric_limits<int64_t>::max())
    memory.capacity_bytes = static_cast<double>(device.capacity());
  std::map<int, StageMemory> stages;
  for (const RankBytes& rank : gather(world, device.meter(), ranks_in_process, alone)) {
    const int stage = static_cast<int>(rank.stage);
    StageMemory& row = stages[stage];
    row.stage = stage;
    for (int use = 0; use < kMemoryUses; ++use)
      row.bytes[use] = std::max(row.bytes[use], rank.uses[use]);
    memory.peak_bytes = std::max(memory.peak_bytes, rank.peak);
    memory.resident_bytes = std::max(memory.resident_bytes, rank.resident);
  }
  for (const auto& [stage, row] : stages) memory.stages.push_back(row);
  return memory;
}

}  // namespace engine
