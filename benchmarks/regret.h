// What benchmarks of regret share: small models, and how predictions compare with the truth.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tuner/model/presets.h"

namespace benchmarks {

// GPT's layers, and Llama's: gated, RMSNorm, fewer KV heads.
inline std::array<engine::ModelSpec, 2> small_models() {
  engine::ModelSpec llama = tuner::find_model("llama-3.2-1b");
  llama.name = "llama-tiny";
  llama.layers = 4;
  llama.hidden = 256;
  llama.heads = 8;
  llama.kv_heads = 4;
  llama.head_dim = 32;
  llama.ffn_hidden = 512;
  llama.vocab = 512;
  llama.positions = 128;
  return {tuner::find_model("gpt3-tiny"), llama};
}

inline std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

// Spearman's; 1 of fewer than three.
inline double rank_correlation(const std::vector<double>& first,
                               const std::vector<double>& second) {
  const size_t n = first.size();
  if (n < 3) return 1;
  const std::vector<double> a = ranks_of(first), b = ranks_of(second);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const auto count = static_cast<double>(n);
  return 1 - 6 * squares / (count * (count * count - 1));
}

inline void print_goal(const char* what, bool met) {
  fmt::print("{} {}\n", met ? "met    " : "NOT MET", what);
}

}  // namespace benchmarks
