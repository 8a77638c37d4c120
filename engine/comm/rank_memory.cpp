// The memory of this process, as communicators reach it.
#include "engine/comm/rank_memory.h"

#include <bit>
#include <cstring>

#include "engine/comm/made_up.h"
#include "engine/comm/ordered_reduce.h"

namespace engine {
namespace {

// Uniform with mean 0 and variance 1: in [-√3, √3).
float unit_scale(uint32_t bits) {
  constexpr float kStep = 1.7320508F / 2147483648.0F;
  return static_cast<float>(static_cast<int32_t>(bits)) * kStep;
}

template <class T, class Make>
void fill(Payload data, uint32_t key, Make make) {
  auto* bytes = static_cast<std::byte*>(data.data);
  for (int64_t i = 0; i < data.count; ++i) {
    const T value = make(mix(static_cast<uint32_t>(i) ^ key));
    std::memcpy(bytes + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

class HostMemory final : public RankMemory {
 public:
  bool is_host(const void*) const override { return true; }
  bool in_device_order() const override { return false; }
  void copy(void* to, const void* from, int64_t bytes) const override {
    if (bytes > 0 && to != from) std::memmove(to, from, static_cast<size_t>(bytes));
  }
  void reduce(std::span<const void* const> sources, std::span<void* const> targets, int64_t count,
              Element element, Reduction reduction) const override {
    reduce_in_order(sources, targets, count, element, reduction);
  }
  void make_up(Payload data, uint32_t key) const override {
    switch (data.element) {
      case Element::f32:
        return fill<float>(data, key, unit_scale);
      case Element::f64:
        return fill<double>(data, key, unit_scale);
      case Element::bf16:
        return fill<uint16_t>(data, key, [](uint32_t bits) {
          return static_cast<uint16_t>(std::bit_cast<uint32_t>(unit_scale(bits)) >> 16);
        });
      case Element::i32:
        return fill<int32_t>(data, key,
                             [](uint32_t bits) { return static_cast<int32_t>(bits & 1U); });
      case Element::u8:
        return fill<uint8_t>(data, key,
                             [](uint32_t bits) { return static_cast<uint8_t>(bits & 1U); });
    }
  }
};

}  // namespace

std::shared_ptr<const RankMemory> host_memory() {
  static const auto kMemory = std::make_shared<const HostMemory>();
  return kMemory;
}

}  // namespace engine
