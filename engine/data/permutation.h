// Permutation: a pseudo-random order of [0, size) that is computed, never stored.
#pragma once
#include <array>
#include <cstdint>

namespace engine {

// A bijection of [0, size): an alternating Feistel network over the smallest power of two that
// holds `size`, walked until it lands inside (Black and Rogaway 2002, "Ciphers with Arbitrary
// Finite Domains", section 5). Takes fewer than two walks on average and no memory.
class Permutation {
 public:
  // size from 1 to 2^62.
  Permutation(int64_t size, uint64_t key);

  int64_t size() const { return size_; }
  // Where `index` goes; index in [0, size).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t scramble(uint64_t word) const;
  static constexpr int kRounds = 8;
  int64_t size_;
  int low_bits_ = 1;
  int high_bits_ = 1;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace engine
