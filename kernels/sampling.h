// Choosing the next token from a row of logits.
#pragma once
#include "kernels/random.h"
#include "kernels/view.h"

namespace kernels {

struct SamplingRule {
  double temperature = 1;  // > 0
  int64_t top_k = 0;       // 0 = all
  double top_p = 1;        // in (0, 1]
};

// A draw for one row of logits: number `number` of a stream.
struct RowDraw {
  int64_t row = 0;
  SamplingRule rule;
  Stream stream;
  int64_t number = 0;
};

// Floats as integers of the same order.
HOST_DEVICE int64_t ordered_key(float x) {
  const int32_t word = std::bit_cast<int32_t>(x);
  return word >= 0 ? word : -static_cast<int64_t>(word & 0x7fffffff);
}

// The lowest index of the largest value; NaN is never chosen. Also its value, for a reduction over
// shards of the vocabulary.
template <class T>
struct ArgMax {
  using A = Arithmetic<T>;
  Rows<const T> logits;
  Rows<int32_t> ids;  // [1, rows]
  Rows<A> values;     // [1, rows], may be absent
  int64_t first, cols;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const T* x = logits[row];
    const A top = max_each<A>(group, cols, [&](int64_t c) { return A(x[c]); });
    // The lowest index is the highest negated one; doubles hold indices exactly.
    const double lowest = -max_each<double>(group, cols, [&](int64_t c) {
      return A(x[c]) == top ? -static_cast<double>(c) : -static_cast<double>(cols);
    });
    if (group.rank() != 0) return;
    ids.data[row] = static_cast<int32_t>(
        first + (lowest < static_cast<double>(cols) ? static_cast<int64_t>(lowest) : 0));
    if (values) values.data[row] = top;
  }
};

// Draws an index with probability softmax(logits / temperature) among the top_k largest and the
// smallest set that holds top_p of the probability. The thresholds are found by bisection over the
// floats, the draw is the maximum of logit / temperature + Gumbel noise (Gumbel 1954), so neither
// needs sorting or scratch memory. The draws travel in the kernel's parameters; one a group.
template <class T>
struct Sample {
  static constexpr int kMostDraws = 64;
  Rows<const T> logits;
  Rows<int32_t> ids;
  int64_t cols;
  int count = 0;
  RowDraw draws[kMostDraws];

  Sample(Rows<const T> logits_, Rows<int32_t> ids_, int64_t cols_)
      : logits(logits_), ids(ids_), cols(cols_) {}
  bool is_full() const { return count == kMostDraws; }
  void add(const RowDraw& one) { draws[count++] = one; }

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const RowDraw& own = draws[item];
    const SamplingRule& rule = own.rule;
    const T* x = logits[own.row];
    const float inverse = static_cast<float>(1 / rule.temperature);
    const auto score = [&](int64_t c) { return static_cast<float>(Arithmetic<T>(x[c])) * inverse; };
    const float top = max_each<float>(group, cols, score);
    int64_t floor = ordered_key(-std::numeric_limits<float>::infinity());
    if (rule.top_k > 0 && rule.top_k < cols)
      floor = highest_key(group, floor, top, [&](int64_t key) {
        return sum_each<double>(group, cols, [&](int64_t c) {
                 return ordered_key(score(c)) >= key ? 1.0 : 0.0;
               }) >= static_cast<double>(rule.top_k);
      });
    if (rule.top_p < 1) {
      const int64_t lowest = floor;
      const auto mass = [&](int64_t key) {
        return sum_each<double>(group, cols, [&](int64_t c) {
          const float s = score(c);
          return ordered_key(s) >= key ? static_cast<double>(exponential(s - top)) : 0.0;
        });
      };
      const double wanted = rule.top_p * mass(lowest);
      floor = highest_key(group, lowest, top, [&](int64_t key) { return mass(key) >= wanted; });
    }
    draw(group, own, score, floor);
  }

 private:
  // The highest key in [low, key of top] at which `enough` still holds; it holds at low.
  template <class G, class F>
  HOST_DEVICE static int64_t highest_key(const G&, int64_t low, float top, F enough) {
    int64_t high = ordered_key(top) + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (enough(middle))
        low = middle;
      else
        high = middle;
    }
    return low;
  }
  template <class G, class F>
  HOST_DEVICE void draw(const G& group, const RowDraw& own, F score, int64_t floor) const {
    const RowStream numbers = row_stream(own.stream, own.number);
    const auto noisy = [&](int64_t c) {
      const float s = score(c);
      const float u =
          (static_cast<float>(numbers.bits(static_cast<uint32_t>(c)) >> 8) + 0.5f) * 0x1p-24f;
      return ordered_key(s) >= floor ? s - logarithm(-logarithm(u))
                                     : -std::numeric_limits<float>::infinity();
    };
    const float best = max_each<float>(group, cols, noisy);
    const double index = max_each<double>(
        group, cols, [&](int64_t c) { return noisy(c) == best ? static_cast<double>(c) : -1.0; });
    if (group.rank() == 0) ids.data[own.row] = static_cast<int32_t>(index < 0 ? 0 : index);
  }
};

}  // namespace kernels
