// Batches: windows of real text in a drawn order, or drawn tokens.
#include "engine/data/batches.h"

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "kernels/random.h"

namespace engine {
namespace {

// Numbers of an epoch: one for its order, one for its start.
uint64_t drawn(uint64_t seed, int64_t epoch, uint64_t which) {
  return kernels::make_stream(seed, kernels::Purpose::data, static_cast<uint64_t>(epoch), which)
      .key;
}

}  // namespace

TextBatches::TextBatches(IndexedDataset dataset, int64_t seq, int64_t vocab, uint64_t seed)
    : dataset_(std::move(dataset)),
      seq_(seq),
      vocab_(vocab),
      seed_(seed),
      windows_((dataset_.tokens() - 1) / seq) {
  if (windows_ < 1)
    throw InputError(
        fmt::format("{}: has {} tokens, fewer than one sample of {}; use more text or a shorter "
                    "sequence",
                    dataset_.prefix(), dataset_.tokens(), seq + 1));
}

void TextBatches::read(int64_t sample, std::span<int32_t> tokens) const {
  expect(sample >= 0 && static_cast<int64_t>(tokens.size()) == seq_ + 1, "a sample of seq + 1");
  const int64_t epoch = sample / windows_;
  const Permutation order(windows_, drawn(seed_, epoch, 0));
  const int64_t spare = dataset_.tokens() - 1 - windows_ * seq_;
  const auto start =
      static_cast<int64_t>(drawn(seed_, epoch, 1) % static_cast<uint64_t>(spare + 1));
  const int64_t first = start + order(sample % windows_) * seq_;
  dataset_.read(first, tokens);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_)
      throw InputError(fmt::format(
          "{}: token {} at place {} is outside the model's vocabulary of {}; tokenize the text "
          "with the model's tokenizer",
          dataset_.prefix(), tokens[i], first + static_cast<int64_t>(i), vocab_));
}

void SyntheticBatches::read(int64_t sample, std::span<int32_t> tokens) const {
  const auto stream = kernels::make_stream(seed_, kernels::Purpose::data, 0, 0);
  const auto row = kernels::row_stream(stream, sample);
  for (size_t i = 0; i < tokens.size(); ++i) {
    // The upper half of a product of 64 bits spreads 32 random bits over the vocabulary.
    const uint64_t product =
        uint64_t{row.bits(static_cast<uint32_t>(i))} * static_cast<uint64_t>(vocab_);
    tokens[i] = static_cast<int32_t>(product >> 32);
  }
}

std::unique_ptr<Batches> make_batches(const std::string& data_prefix, int64_t seq, int64_t vocab,
                                      uint64_t seed) {
  if (data_prefix.empty()) return std::make_unique<SyntheticBatches>(vocab, seed);
  return std::make_unique<TextBatches>(IndexedDataset(data_prefix), seq, vocab, seed);
}

}  // namespace engine
