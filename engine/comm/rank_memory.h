// RankMemory: how communicators reach the memory of their ranks, be it the host's or a device's.
#pragma once
#include <memory>
#include <span>

#include "engine/comm/payload.h"

namespace engine {

enum class Reduction : uint8_t { sum, max };

// Used by all ranks at once. Operations of one thread happen in the order in which it asks for
// them; where `in_device_order`, after what its device was asked to do before, and before what it
// is asked later, but not necessarily at once.
class RankMemory {
 public:
  virtual ~RankMemory() = default;

  // Whether the host may read `data` as its own.
  virtual bool is_host(const void* data) const = 0;
  virtual bool in_device_order() const = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) const = 0;
  // As reduce_in_order (ordered_reduce.h).
  virtual void reduce(std::span<const void* const> sources, std::span<void* const> targets,
                      int64_t count, Element element, Reduction reduction) const = 0;
  // Values of mean 0 and variance 1 (integers: 0 or 1) that depend on `key` only.
  virtual void make_up(Payload data, uint32_t key) const = 0;
};

// The memory of this process.
std::shared_ptr<const RankMemory> host_memory();

}  // namespace engine
