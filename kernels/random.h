// Random numbers without state: a pure function of a stream, a row and a column.
//
// A stream is named by what it is for; rows and columns are global indices of the tensor. So any
// sharding, any order and any recomputation draws the same numbers.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/scalar.h"

namespace kernels {

enum class Purpose : uint32_t {
  initial_weights,
  embedding_dropout,
  attention_dropout,      // of attention weights
  attention_out_dropout,  // of the attention branch
  mlp_dropout,            // of the MLP branch
  data,
  sampling,
  phantom,
};

// A bijective mixer of 64 bits: two rounds of multiply and xor-shift, constants of Stafford's
// variant 13 (the finaliser of SplitMix64, Steele et al. 2014).
HOST_DEVICE uint64_t mix64(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

struct Stream {
  uint64_t key = 0;
};
// `layer` tells tensors of one purpose apart: a layer's index, or any number of the caller's.
HOST_DEVICE Stream make_stream(uint64_t seed, Purpose purpose, uint64_t step, uint64_t layer) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  uint64_t key = mix64(seed + kGolden);
  key = mix64(key ^ (static_cast<uint64_t>(purpose) + kGolden));
  key = mix64(key ^ (step + kGolden));
  return {mix64(key ^ (layer + kGolden))};
}

// The numbers of one row of a stream.
struct RowStream {
  uint32_t first;
  uint32_t second;

  // 32 random bits for a column (below 2^32). Multiply and xor-shift on 32 bits, which vectorises
  // on every processor; the two keys, mixed in at different depths, keep rows unrelated.
  HOST_DEVICE uint32_t bits(uint32_t column) const {
    uint32_t word = column ^ first;
    word = (word ^ (word >> 16)) * 0x21f0aaadu;
    word = (word ^ (word >> 15)) + second;
    word = (word ^ (word >> 16)) * 0x735a2d97u;
    word = (word ^ (word >> 15)) * 0x85ebca6bu;
    return word ^ (word >> 16);
  }
  // In [0, 1), a multiple of 2^-24.
  HOST_DEVICE float uniform(uint32_t column) const {
    return static_cast<float>(bits(column) >> 8) * 0x1p-24f;
  }
  // Standard normal (Box and Muller 1958); uses the bits of two columns of its own.
  HOST_DEVICE float normal(uint32_t column) const {
    const float u = (static_cast<float>(bits(2 * column) >> 8) + 0.5f) * 0x1p-24f;
    return square_root(-2.0f * logarithm(u)) * cosf(6.28318531f * uniform(2 * column + 1));
  }
};
HOST_DEVICE RowStream row_stream(Stream stream, int64_t row) {
  const uint64_t word = mix64(stream.key + static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u);
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}

// Global index of a local row: rows come in runs of `run`, one run lying `step` behind the one
// before. The default numbers them from `first` on without gaps.
struct RowMap {
  int64_t first = 0;
  int64_t run = 0;  // 0 = one run
  int64_t step = 0;

  HOST_DEVICE int64_t operator()(int64_t row) const {
    return run == 0 ? first + row : first + row / run * step + row % run;
  }
};

// Zeroes an element with `probability`, and divides the others by 1 - probability.
struct Dropout {
  float probability = 0;  // in [0, 1)
  Stream stream;
  RowMap rows;
  int64_t first_column = 0;

  HOST_DEVICE bool active() const { return probability > 0; }
  HOST_DEVICE uint32_t threshold() const {
    return static_cast<uint32_t>(static_cast<double>(probability) * 4294967296.0);
  }
  HOST_DEVICE float keep_scale() const { return 1.0f / (1.0f - probability); }
};

// The factors 0 or 1 / (1 - p) of one row of dropout.
struct DropoutRow {
  RowStream numbers;
  uint32_t threshold;
  uint32_t first_column;
  float scale;

  HOST_DEVICE float factor(int64_t column) const {
    return numbers.bits(first_column + static_cast<uint32_t>(column)) < threshold ? 0.0f : scale;
  }
};
HOST_DEVICE DropoutRow dropout_row(const Dropout& dropout, int64_t global_row) {
  return {row_stream(dropout.stream, global_row), dropout.threshold(),
          static_cast<uint32_t>(dropout.first_column), dropout.keep_scale()};
}

}  // namespace kernels
