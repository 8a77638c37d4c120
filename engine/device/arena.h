// Arena: memory that is asked of the system once and then reused.
//
// Fresh pages cost more than computing on them (a fault, and on virtual machines the host's too),
// so regions are large, use huge pages and pass from a finished arena to the next one of the
// process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace engine {

class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Aligned to 64 bytes; throws std::bad_alloc.
  void* allocate(int64_t bytes);
  void release(void* data, int64_t bytes) noexcept;

  struct Region {
    std::byte* data;
    int64_t bytes;
  };

 private:
  void grow(int64_t bytes);
  std::vector<Region> regions_;
  std::map<std::byte*, int64_t> free_;  // blocks by address, neighbours merged
};

}  // namespace engine
