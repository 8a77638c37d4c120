// StepBatch: what one pass through the pipeline computes, as data that every rank of it gets.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace engine {

// How the next token is chosen. Draws depend on seed, request and place only: any plan and any
// company in the batch give the same text.
struct SamplingSpec {
  double temperature = 0;  // 0 = always the likeliest token
  int64_t top_k = 0;       // 0 = all
  double top_p = 1;        // in (0, 1]
  uint64_t seed = 1;

  bool operator==(const SamplingSpec&) const = default;
};

// Consecutive tokens of one sequence: a prompt, or the token generated last.
struct Segment {
  int64_t request = 0;
  int32_t tokens = 0;
  int32_t first_place = 0;  // of its first token in the sequence
  int32_t draw = 0;         // how many tokens the request has got before
  bool is_scored = false;   // its targets are looked at; else the next token is chosen
  SamplingSpec sampling;
  std::vector<int32_t> pages;  // of the KV cache, in the order of the sequence

  bool operator==(const Segment&) const = default;
};

struct StepBatch {
  std::vector<Segment> segments;
  // Of all segments. A virtual token stands as -1 - row, the row in the table of virtual tokens.
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;  // of the scored segments' tokens; negative = not asked

  // The tokens whose logits are looked at, in order.
  std::vector<int32_t> rows() const;
  bool operator==(const StepBatch&) const = default;
};

// The token that a row's logits give, and the loss of its target (-ln of the probability; 0
// without a target).
struct Choice {
  int32_t token = 0;
  float loss = 0;
};

std::vector<int32_t> pack(const StepBatch& batch);
StepBatch unpack(std::span<const int32_t> words);

}  // namespace engine
