// The arithmetic of reductions, block by block so that partial results stay in the first-level
// cache.
#include "engine/comm/ordered_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/errors.h"

namespace engine {
namespace {

constexpr int64_t kBlock = 1024;

struct Bf16 {
  uint16_t bits;
};

float widen(Bf16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
template <class T>
T widen(T value) {
  return value;
}

template <class T>
T narrow(T value) {
  return value;
}
template <class T>
T narrow(float value) requires std::is_same_v<T, Bf16> {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

struct Sum {
  template <class A>
  A operator()(A a, A b) const {
    return static_cast<A>(a + b);
  }
};
struct Max {
  template <class A>
  A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};

// The caller's memory holds some type of T's size; copies keep that legal and still vectorise.
template <class T>
T load(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T, class Operation>
void reduce(std::span<const void* const> sources, std::span<void* const> targets, int64_t count,
            Operation combine) {
  using Accumulator = decltype(widen(T{}));
  Accumulator total[kBlock];
  T result[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t n = std::min(kBlock, count - first);
    const int64_t offset = first * static_cast<int64_t>(sizeof(T));
    const auto* source = static_cast<const std::byte*>(sources[0]) + offset;
    for (int64_t i = 0; i < n; ++i) total[i] = widen(load<T>(source, i));
    for (const void* next : sources.subspan(1)) {
      source = static_cast<const std::byte*>(next) + offset;
      for (int64_t i = 0; i < n; ++i) total[i] = combine(total[i], widen(load<T>(source, i)));
    }
    for (int64_t i = 0; i < n; ++i) result[i] = narrow<T>(total[i]);
    for (void* target : targets)
      std::memcpy(static_cast<std::byte*>(target) + offset, result,
                  static_cast<size_t>(n) * sizeof(T));
  }
}

template <class T>
void reduce(std::span<const void* const> sources, std::span<void* const> targets, int64_t count,
            Reduction reduction) {
  if (reduction == Reduction::sum) return reduce<T>(sources, targets, count, Sum{});
  reduce<T>(sources, targets, count, Max{});
}

}  // namespace

void reduce_in_order(std::span<const void* const> sources, std::span<void* const> targets,
                     int64_t count, Element element, Reduction reduction) {
  expect(!sources.empty(), "a source to reduce");
  switch (element) {
    case Element::f32:
      return reduce<float>(sources, targets, count, reduction);
    case Element::bf16:
      return reduce<Bf16>(sources, targets, count, reduction);
    case Element::f64:
      return reduce<double>(sources, targets, count, reduction);
    case Element::i32:
      return reduce<int32_t>(sources, targets, count, reduction);
    case Element::u8:
      return reduce<uint8_t>(sources, targets, count, reduction);
  }
}

Slice slice_of(int64_t count, int parts, int index) {
  constexpr int64_t kLine = 64;  // elements; a whole number of cache lines for every type
  const int64_t lines = (count + kLine - 1) / kLine;
  const int64_t first = std::min(count, lines * index / parts * kLine);
  const int64_t end = std::min(count, lines * (index + 1) / parts * kLine);
  return {first, end - first};
}

}  // namespace engine
