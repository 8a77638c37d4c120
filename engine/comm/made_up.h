// The generator of made-up data: counter-based, in 32 bits, so that it vectorises.
#pragma once
#include <cstdint>

namespace engine {

// Key and counter are mixed by two rounds of multiply and shift (constants: Wellons' 2018 search
// for low bias).
constexpr uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

}  // namespace engine
