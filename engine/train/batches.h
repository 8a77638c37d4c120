// Batches: where the sequences of a training come from, by global index.
#pragma once
#include <cstdint>
#include <span>

namespace engine {

class Batches {
 public:
  virtual ~Batches() = default;
  // Fills `tokens` (seq + 1 of them: inputs are the first seq, targets the last) with sequence
  // number `index` of the training; the same on every rank and in every run. Targets < 0 do not
  // count.
  virtual void read(int64_t index, std::span<int32_t> tokens) = 0;
};

// Uniformly random tokens, for trials of speed and memory.
class SyntheticBatches final : public Batches {
 public:
  SyntheticBatches(int64_t vocab, uint64_t seed) : vocab_(vocab), seed_(seed) {}
  void read(int64_t index, std::span<int32_t> tokens) override;

 private:
  int64_t vocab_;
  uint64_t seed_;
};

}  // namespace engine
