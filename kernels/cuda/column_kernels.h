// Sums over the rows of bf16 matrices, for the gradients of biases and norms: many blocks share the
// rows of a column, and a second kernel adds their sums in a fixed order.
#pragma once
#include "kernels/cuda/piece_map.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"

namespace kernels::cuda {

// partials[(split · kSums + n) · cols + column] = Σ over the split's rows of the n-th term.
template <class Terms>
struct ColumnPartials {
  static constexpr int kThreads = 256, kBlocks = 4;
  static constexpr int kSums = Terms::kSums;
  static constexpr int kColumns = 128;  // of a block: 256 bytes of a row
  static constexpr int kAcross = kColumns / 8, kDown = kThreads / kAcross;
  Terms terms;
  int64_t rows;
  int cols, splits;
  float* partials;

  // As many splits as fill the chip, of at least 64 rows each.
  static int splits_for(int64_t rows, int64_t cols, int multiprocessors) {
    const int64_t across = (cols + kColumns - 1) / kColumns;
    const int64_t wanted = (int64_t{kBlocks} * multiprocessors + across - 1) / across;
    return static_cast<int>(larger(int64_t{1}, smaller(wanted, rows / 64)));
  }
  int64_t blocks() const { return int64_t{splits} * ((cols + kColumns - 1) / kColumns); }
  static int64_t scratch_bytes(int64_t cols, int splits) {
    return splits * kSums * cols * int64_t{sizeof(float)};
  }
  int64_t shared_bytes() const { return int64_t{kThreads} * 8 * int64_t{sizeof(float)}; }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int split = static_cast<int>(block.index() % splits);
    const int first = static_cast<int>(block.index() / splits) * kColumns;
    const int across = block.thread() % kAcross, down = block.thread() / kAcross;
    const int column = first + across * 8;
    float sums[kSums][8] = {};
    if (column < cols) {
      const int64_t last = rows * (split + 1) / splits;
      KERNELS_UNROLL_TWICE
      for (int64_t row = rows * split / splits + down; row < last; row += kDown)
        terms(row, column, sums);
    }
    // One term after the other through the same shared memory.
    auto* shared = reinterpret_cast<float*>(block.shared());
    KERNELS_UNROLL
    for (int n = 0; n < kSums; ++n) {
      KERNELS_UNROLL
      for (int i = 0; i < 8; ++i) shared[down * kColumns + i * kAcross + across] = sums[n][i];
      block.sync();
      const int own = block.thread();  // the column of a thread, as stored above
      const int own_column = first + own % kAcross * 8 + own / kAcross;
      if (own < kColumns && own_column < cols) {
        float total = 0;
        for (int d = 0; d < kDown; ++d) total += shared[d * kColumns + own];
        partials[(int64_t{split} * kSums + n) * cols + own_column] = total;
      }
      block.sync();
    }
  }
};

// dst[n] += Σ_splits partials, a column a thread.
template <int kN>
struct AddColumnPartials {
  static constexpr int kThreads = 128, kBlocks = 8;
  const float* partials;
  float* dst[kN];  // may be null
  int cols, splits;

  int64_t blocks() const { return (int64_t{kN} * cols + kThreads - 1) / kThreads; }
  int64_t shared_bytes() const { return 0; }
  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t item = block.index() * kThreads + block.thread();
    KERNELS_UNROLL
    for (int n = 0; n < kN; ++n) {
      const int64_t column = item - int64_t{n} * cols;
      if (column < 0 || column >= cols || dst[n] == nullptr) continue;
      float total = 0;
      for (int split = 0; split < splits; ++split)
        total += partials[(int64_t{split} * kN + n) * cols + column];
      dst[n][column] += total;
    }
  }
};

struct ColumnSumTerms {
  static constexpr int kSums = 1;
  ColumnSum<bfloat16> in;
  DEVICE void operator()(int64_t row, int column, float (&sums)[1][8]) const {
    const Eight x = Eight::load(in.src[row] + column);
    KERNELS_UNROLL
    for (int i = 0; i < 8; ++i) sums[0][i] += x.v[i];
  }
};

// grad_dst · x̂ and grad_dst.
struct NormTerms {
  static constexpr int kSums = 2;
  NormParameterGradients<bfloat16> in;
  DEVICE void operator()(int64_t row, int column, float (&sums)[2][8]) const {
    const Eight dy = Eight::load(in.grad_dst[row] + column);
    const Eight x = Eight::load(in.src[row] + column);
    const float center = in.mean ? in.mean.data[row] : 0.0f, scale = in.rstd.data[row];
    KERNELS_UNROLL
    for (int i = 0; i < 8; ++i) {
      sums[0][i] += dy.v[i] * ((x.v[i] - center) * scale);
      sums[1][i] += dy.v[i];
    }
  }
};

}  // namespace kernels::cuda
