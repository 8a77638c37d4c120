// Kernels that reduce over the rows of a bf16 matrix, a block a row, 16 bytes at a time: norms and
// cross-entropy. Each reads a row from memory once.
#pragma once
#include "kernels/cross_entropy.h"
#include "kernels/cuda/piece_map.h"
#include "kernels/norm.h"

namespace kernels::cuda {

// A row of norms stays in the registers of its block; `kPerSm` threads of an SM share them.
template <int kN, int kPerSm>
struct NormBlock {
  static constexpr int kThreads = kN, kBlocks = kPerSm / kN;
  static constexpr int kPieces = 4;  // a thread
  static constexpr int64_t kMostCols = int64_t{kN} * kPieces * 8;

  int64_t shared_bytes() const { return kN / kWarpSize * int64_t{sizeof(float)}; }
  // f(i, column) for the pieces of a thread.
  template <class B, class F>
  static DEVICE void each_piece(const B& block, int64_t cols, F f) {
    KERNELS_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      const int column = (block.thread() + i * kN) * 8;
      if (column < cols) f(i, column);
    }
  }
};

// As NormForward (norm.h).
template <int kN>
struct NormForwardRow : NormBlock<kN, 1024> {
  using Base = NormBlock<kN, 1024>;
  using Base::kPieces;
  NormForward<bfloat16> in;

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t row = block.index();
    auto* slots = reinterpret_cast<float*>(block.shared());
    const float count = static_cast<float>(in.cols);
    Eight x[kPieces];
    float sum = 0;
    Base::each_piece(block, in.cols, [&](int i, int column) {
      x[i] = Eight::load(in.src[row] + column);
      for (const float value : x[i].v) sum += value;
    });
    const float center = in.mean ? block_sum<kN>(block, sum, slots) / count : 0.0f;
    float squares = 0;
    Base::each_piece(block, in.cols, [&](int i, int) {
      for (float& value : x[i].v) {
        value -= center;
        squares += value * value;
      }
    });
    const float scale = 1.0f / square_root(block_sum<kN>(block, squares, slots) / count +
                                           static_cast<float>(in.epsilon));
    Base::each_piece(block, in.cols, [&](int i, int column) {
      const Eight g = Eight::load(in.gain[0] + column);
      const Eight b = Eight::load_optional(in.bias, 0, column);
      KERNELS_UNROLL
      for (int n = 0; n < 8; ++n) x[i].v[n] = x[i].v[n] * scale * g.v[n] + b.v[n];
      x[i].store(in.dst[row] + column);
    });
    if (block.thread() != 0) return;
    if (in.mean) in.mean.data[row] = center;
    in.rstd.data[row] = scale;
  }
};

// As NormBackward (norm.h).
template <int kN>
struct NormBackwardRow : NormBlock<kN, 640> {
  using Base = NormBlock<kN, 640>;
  using Base::kPieces;
  NormBackward<bfloat16> in;

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t row = block.index();
    auto* slots = reinterpret_cast<float*>(block.shared());
    const float count = static_cast<float>(in.cols), scale = in.rstd.data[row];
    const float center = in.mean ? in.mean.data[row] : 0.0f;
    // As they came: as floats they would take twice the registers.
    Piece<bfloat16> src[kPieces], grad_dst[kPieces];
    float along = 0, average = 0;
    Base::each_piece(block, in.cols, [&](int i, int column) {
      src[i] = load_piece(in.src[row] + column);
      grad_dst[i] = load_piece(in.grad_dst[row] + column);
      const auto g = load_piece(in.gain[0] + column);
      KERNELS_UNROLL
      for (int n = 0; n < 8; ++n) {
        const float w = float(grad_dst[i].v[n]) * float(g.v[n]);
        along += w * ((float(src[i].v[n]) - center) * scale);
        average += w;
      }
    });
    along = block_sum<kN>(block, along, slots) / count;
    average = in.mean ? block_sum<kN>(block, average, slots) / count : 0.0f;
    Base::each_piece(block, in.cols, [&](int i, int column) {
      const auto g = load_piece(in.gain[0] + column);
      Eight y = Eight::load_optional(in.residual, row, column);
      KERNELS_UNROLL
      for (int n = 0; n < 8; ++n) {
        const float w = float(grad_dst[i].v[n]) * float(g.v[n]);
        y.v[n] += scale * (w - average - (float(src[i].v[n]) - center) * scale * along);
      }
      y.store(in.grad_src[row] + column);
    });
  }
};

// The rows of logits are long: every thread walks through its pieces. A vocabulary need not fill
// the last one.
struct LogitRow {
  static constexpr int kThreads = 512, kBlocks = 2;

  int64_t shared_bytes() const { return kThreads / kWarpSize * int64_t{sizeof(float)}; }
  struct One {
    float v[1];
  };
  // f(piece, column) for the pieces of the row, of eight elements or, at its end, of one; what it
  // changes in them is stored if kWrites.
  template <bool kWrites, class T, class B, class F>
  static DEVICE void each_piece(const B& block, T* row, int64_t cols, F f) {
    const int whole = static_cast<int>(cols / 8 * 8);
    KERNELS_UNROLL_TWICE
    for (int column = block.thread() * 8; column < whole; column += kThreads * 8) {
      Eight piece = Eight::load(row + column);
      f(piece, column);
      if constexpr (kWrites) piece.store(row + column);
    }
    const int column = whole + block.thread();
    if (column >= cols) return;
    One piece{{float(row[column])}};
    f(piece, column);
    if constexpr (kWrites) row[column] = bfloat16(piece.v[0]);
  }
};

// As CrossEntropySums (cross_entropy.h), in one walk: what a thread has summed follows its maximum.
struct CrossEntropySumsPieces : LogitRow {
  CrossEntropySums<bfloat16> in;

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    auto* slots = reinterpret_cast<float*>(block.shared());
    float top = std::numeric_limits<float>::lowest(), sum = 0;
    each_piece<false>(block, in.logits[block.index()], in.cols, [&](auto& x, int) {
      float most = top;
      for (const float value : x.v) most = larger(most, value);
      if (most > top) {
        sum *= power(block, top - most);
        top = most;
      }
      KERNELS_UNROLL
      for (const float value : x.v) sum += power(block, value - top);
    });
    const float shift = block_max<kThreads>(block, top, slots);
    sum = block_sum<kThreads>(block, sum * power(block, top - shift), slots);
    if (block.thread() == 0) in.finish(block.index(), shift, sum);
  }

 private:
  template <ThreadBlock B>
  static DEVICE float power(const B& block, float x) {
    return block.power_of_two(x * kLog2E);
  }
};

// As CrossEntropyBackward; whoever writes the target's element subtracts the factor.
struct CrossEntropyBackwardPieces : LogitRow {
  CrossEntropyBackward<bfloat16> in;

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t row = block.index();
    const bool ignored = in.targets.data[row] < 0;
    const int64_t local = ignored ? -1 : in.targets.data[row] - in.first;
    const float shift = in.top.data[row], factor = static_cast<float>(in.factor);
    const float scale = factor / in.sums.data[row];
    each_piece<true>(block, in.logits[row], in.cols, [&](auto& x, int column) {
      KERNELS_UNROLL
      for (float& value : x.v) {
        const float loss = column++ == local ? factor : 0.0f;
        value = ignored ? 0.0f : exponential(value - shift) * scale - loss;
      }
    });
  }
};

}  // namespace kernels::cuda
