// Arena: memory that is asked of the system once and then reused.
#include "engine/device/arena.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>

namespace engine {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kSmallestRegion = int64_t{32} << 20;

// Room for the block, and behind it a gap in which AddressSanitizer sees an overrun.
constexpr int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64 + 64; }

// Regions that no arena uses at present.
class SpareRegions {
 public:
  // One of at least `bytes`, the smallest that is there, else a new one.
  Arena::Region take(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = regions_.end();
    for (auto it = regions_.begin(); it != regions_.end(); ++it)
      if (it->bytes >= bytes && (best == regions_.end() || it->bytes < best->bytes)) best = it;
    if (best == regions_.end()) return map(bytes);
    const Arena::Region region = *best;
    regions_.erase(best);
    return region;
  }
  void give(const std::vector<Arena::Region>& regions) {
    const std::lock_guard lock(mutex_);
    regions_.insert(regions_.end(), regions.begin(), regions.end());
  }

 private:
  static Arena::Region map(int64_t bytes) {
    const int64_t size = std::max(kSmallestRegion, (bytes + kHugePage - 1) / kHugePage * kHugePage);
    void* data = mmap(nullptr, static_cast<size_t>(size + kHugePage), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(data);
    auto* aligned = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
#ifdef MADV_HUGEPAGE
    madvise(aligned, static_cast<size_t>(size), MADV_HUGEPAGE);  // a wish; refusal only costs time
#endif
    return {aligned, size};
  }
  std::mutex mutex_;
  std::vector<Arena::Region> regions_;
};

SpareRegions& spare_regions() {
  static auto* regions = new SpareRegions;  // outlives every arena, also static ones
  return *regions;
}

}  // namespace

Arena::~Arena() {
  for (const Region& region : regions_)
    ASAN_UNPOISON_MEMORY_REGION(region.data, static_cast<size_t>(region.bytes));
  spare_regions().give(regions_);
}

void* Arena::allocate(int64_t bytes) {
  const int64_t size = rounded(bytes);
  const auto best_fit = [&] {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= size && (best == free_.end() || it->second < best->second)) best = it;
    return best;
  };
  auto block = best_fit();
  if (block == free_.end()) {
    grow(size);
    block = best_fit();
  }
  const auto [data, room] = *block;
  free_.erase(block);
  if (room > size) free_.emplace(data + size, room - size);
  ASAN_UNPOISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
  return data;
}

void Arena::release(void* data, int64_t bytes) noexcept {
  ASAN_POISON_MEMORY_REGION(data, static_cast<size_t>(bytes));
  auto block = free_.emplace(static_cast<std::byte*>(data), rounded(bytes)).first;
  if (const auto next = std::next(block);
      next != free_.end() && block->first + block->second == next->first) {
    block->second += next->second;
    free_.erase(next);
  }
  if (block == free_.begin()) return;
  if (const auto before = std::prev(block); before->first + before->second == block->first) {
    before->second += block->second;
    free_.erase(block);
  }
}

void Arena::grow(int64_t bytes) {
  const Region region = spare_regions().take(bytes);
  regions_.push_back(region);
  ASAN_POISON_MEMORY_REGION(region.data, static_cast<size_t>(region.bytes));
  free_.emplace(region.data, region.bytes);
}

}  // namespace engine
