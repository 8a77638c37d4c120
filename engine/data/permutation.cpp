// Permutation: alternating Feistel rounds and cycle walking.
#include "engine/data/permutation.h"

#include <bit>
#include <utility>

#include "engine/base/errors.h"
#include "kernels/random.h"

namespace engine {

Permutation::Permutation(int64_t size, uint64_t key) : size_(size) {
  expect(size >= 1 && size <= (int64_t{1} << 62), "a permutation of 1 to 2^62 elements");
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (uint64_t& round_key : keys_) round_key = key = kernels::mix64(key + 0x9e3779b97f4a7c15u);
}

uint64_t Permutation::scramble(uint64_t word) const {
  int low_bits = low_bits_;
  int high_bits = high_bits_;
  for (const uint64_t key : keys_) {
    const uint64_t low = word & ((uint64_t{1} << low_bits) - 1);
    const uint64_t high = word >> low_bits;
    const uint64_t mixed = (high ^ kernels::mix64(low ^ key)) & ((uint64_t{1} << high_bits) - 1);
    // The halves change places, and with them their widths; after all rounds, an even number, they
    // are as they were.
    word = low << high_bits | mixed;
    std::swap(low_bits, high_bits);
  }
  return word;
}

int64_t Permutation::operator()(int64_t index) const {
  expect(index >= 0 && index < size_, "an index of the permutation");
  auto word = static_cast<uint64_t>(index);
  do {
    word = scramble(word);
  } while (word >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(word);
}

}  // namespace engine
