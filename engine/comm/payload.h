// Payload: what a message carries, as a pointer, a number of elements and their type.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <type_traits>

namespace engine {

enum class Element : uint8_t { f32, bf16, f64, i32, u8 };
std::string_view name_of(Element element);

constexpr int64_t bytes_of(Element element) {
  switch (element) {
    case Element::f64:
      return 8;
    case Element::bf16:
      return 2;
    case Element::u8:
      return 1;
    default:
      return 4;
  }
}

// The element type that stands for the C++ type T; other 2-byte types specialise it as bf16.
template <class T>
constexpr Element kElementOf = [] { static_assert(sizeof(T) == 0, "no element type for T"); }();
template <>
inline constexpr Element kElementOf<float> = Element::f32;
template <>
inline constexpr Element kElementOf<double> = Element::f64;
template <>
inline constexpr Element kElementOf<int32_t> = Element::i32;
template <>
inline constexpr Element kElementOf<uint8_t> = Element::u8;
template <>
inline constexpr Element kElementOf<std::byte> = Element::u8;

// Memory that is read. Vectors, arrays and spans convert to it.
struct ConstPayload {
  const void* data = nullptr;
  int64_t count = 0;  // elements
  Element element = Element::f32;

  ConstPayload() = default;
  ConstPayload(const void* data_, int64_t count_, Element element_)
      : data(data_), count(count_), element(element_) {}
  template <std::ranges::contiguous_range Range>
  ConstPayload(const Range& range)  // NOLINT: converts
      : data(std::ranges::data(range)),
        count(static_cast<int64_t>(std::ranges::size(range))),
        element(kElementOf<std::ranges::range_value_t<Range>>) {}

  int64_t bytes() const { return count * bytes_of(element); }
  const std::byte* at(int64_t index) const {
    return static_cast<const std::byte*>(data) + index * bytes_of(element);
  }
  ConstPayload part(int64_t first, int64_t length) const { return {at(first), length, element}; }
};

// Memory that is written, or read and written.
struct Payload {
  void* data = nullptr;
  int64_t count = 0;  // elements
  Element element = Element::f32;

  Payload() = default;
  Payload(void* data_, int64_t count_, Element element_)
      : data(data_), count(count_), element(element_) {}
  template <std::ranges::contiguous_range Range>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      Payload(Range&& range)  // NOLINT: converts
      : data(std::ranges::data(range)),
        count(static_cast<int64_t>(std::ranges::size(range))),
        element(kElementOf<std::ranges::range_value_t<Range>>) {}
  operator ConstPayload() const { return {data, count, element}; }  // NOLINT: converts

  int64_t bytes() const { return count * bytes_of(element); }
  std::byte* at(int64_t index) const {
    return static_cast<std::byte*>(data) + index * bytes_of(element);
  }
  Payload part(int64_t first, int64_t length) const { return {at(first), length, element}; }
};

}  // namespace engine
