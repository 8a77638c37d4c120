// What one pass computes, as a message.
#include "engine/infer/step_batch.h"

#include <bit>

#include "engine/base/errors.h"

namespace engine {
namespace {

class Packer {
 public:
  void word(int32_t value) { words.push_back(value); }
  void number(int64_t value) {
    word(static_cast<int32_t>(value));
    word(static_cast<int32_t>(value >> 32));
  }
  void number(double value) { number(std::bit_cast<int64_t>(value)); }
  void list(const std::vector<int32_t>& values) {
    word(static_cast<int32_t>(values.size()));
    words.insert(words.end(), values.begin(), values.end());
  }
  std::vector<int32_t> words;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const int32_t> words) : words_(words) {}
  int32_t word() {
    expect(next_ < words_.size(), "a message with all its words");
    return words_[next_++];
  }
  int64_t integer() {
    const auto low = static_cast<uint32_t>(word());
    return static_cast<int64_t>(static_cast<uint64_t>(word()) << 32 | low);
  }
  double number() { return std::bit_cast<double>(integer()); }
  std::vector<int32_t> list() {
    std::vector<int32_t> values(static_cast<size_t>(word()));
    for (int32_t& value : values) value = word();
    return values;
  }

 private:
  std::span<const int32_t> words_;
  size_t next_ = 0;
};

}  // namespace

std::vector<int32_t> StepBatch::rows() const {
  std::vector<int32_t> rows;
  int32_t first = 0;
  for (const Segment& segment : segments) {
    if (!segment.is_scored) rows.push_back(first + segment.tokens - 1);
    for (int32_t i = first; segment.is_scored && i < first + segment.tokens; ++i)
      if (targets[static_cast<size_t>(i)] >= 0) rows.push_back(i);
    first += segment.tokens;
  }
  return rows;
}

std::vector<int32_t> pack(const StepBatch& batch) {
  Packer out;
  out.word(static_cast<int32_t>(batch.segments.size()));
  for (const Segment& segment : batch.segments) {
    out.number(segment.request);
    for (const int32_t value :
         {segment.tokens, segment.first_place, segment.draw, int32_t{segment.is_scored}})
      out.word(value);
    out.number(segment.sampling.temperature);
    out.number(segment.sampling.top_k);
    out.number(segment.sampling.top_p);
    out.number(static_cast<int64_t>(segment.sampling.seed));
    out.list(segment.pages);
  }
  out.list(batch.tokens);
  out.list(batch.targets);
  return out.words;
}

StepBatch unpack(std::span<const int32_t> words) {
  Unpacker in(words);
  StepBatch batch;
  batch.segments.resize(static_cast<size_t>(in.word()));
  for (Segment& segment : batch.segments) {
    segment.request = in.integer();
    segment.tokens = in.word();
    segment.first_place = in.word();
    segment.draw = in.word();
    segment.is_scored = in.word() != 0;
    segment.sampling.temperature = in.number();
    segment.sampling.top_k = in.integer();
    segment.sampling.top_p = in.number();
    segment.sampling.seed = static_cast<uint64_t>(in.integer());
    segment.pages = in.list();
  }
  batch.tokens = in.list();
  batch.targets = in.list();
  return batch;
}

}  // namespace engine
