// Batches: the training sequences of a run by global index, so that every plan reads the same ones.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/data/indexed_dataset.h"
#include "engine/data/permutation.h"

namespace engine {

// Sample i is a sequence of seq + 1 tokens: the inputs are all but the last, the targets all but
// the first. Sample i belongs to step i / gbs; any number of samples may be asked for. Thread-safe.
class Batches {
 public:
  virtual ~Batches() = default;
  // tokens.size() = seq + 1; every token is in [0, vocab).
  virtual void read(int64_t sample, std::span<int32_t> tokens) const = 0;
};

// Windows of real text. An epoch cuts the token stream into windows that overlap by one token, from
// a start drawn for the epoch, and visits each exactly once in an order drawn for the epoch.
// Documents follow one another within a window, as is usual for GPT.
class TextBatches : public Batches {
 public:
  // Throws InputError when the data set is shorter than one sample.
  TextBatches(IndexedDataset dataset, int64_t seq, int64_t vocab, uint64_t seed);
  // Throws InputError for a token outside the vocabulary.
  void read(int64_t sample, std::span<int32_t> tokens) const override;

  const IndexedDataset& dataset() const { return dataset_; }
  int64_t samples_per_epoch() const { return windows_; }

 private:
  IndexedDataset dataset_;
  int64_t seq_;
  int64_t vocab_;
  uint64_t seed_;
  int64_t windows_;
};

// Tokens drawn uniformly, for trials without data.
class SyntheticBatches : public Batches {
 public:
  SyntheticBatches(int64_t vocab, uint64_t seed) : vocab_(vocab), seed_(seed) {}
  void read(int64_t sample, std::span<int32_t> tokens) const override;

 private:
  int64_t vocab_;
  uint64_t seed_;
};

// The text of the indexed files at `data_prefix`, or synthetic samples when it is empty.
std::unique_ptr<Batches> make_batches(const std::string& data_prefix, int64_t seq, int64_t vocab,
                                      uint64_t seed);

}  // namespace engine
