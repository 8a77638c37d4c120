// Element-wise kernels of bf16 matrices, 16 bytes at a time.
#pragma once
#include "kernels/activation.h"
#include "kernels/cuda/piece.h"
#include "kernels/elementwise.h"
#include "kernels/rotary.h"

namespace kernels::cuda {

// op(row, column) for the first column of every piece of a matrix.
template <class Op>
struct PieceMap {
  static constexpr int kThreads = 256, kBlocks = 4;
  static constexpr int kPerThread = 4;
  Op op;
  int64_t rows;
  int pieces;  // of a row

  PieceMap(const Op& op_, int64_t rows_, int64_t cols)
      : op(op_), rows(rows_), pieces(static_cast<int>(cols / Op::kWidth)) {}
  int64_t blocks() const {
    constexpr int64_t kPerBlock = int64_t{kThreads} * kPerThread;
    return (rows * pieces + kPerBlock - 1) / kPerBlock;
  }
  int64_t shared_bytes() const { return 0; }

  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const int64_t first = block.index() * (kThreads * kPerThread) + block.thread();
    int64_t row = first / pieces;
    int p = static_cast<int>(first - row * pieces);
    KERNELS_NO_UNROLL
    for (int i = 0; i < kPerThread && row < rows; ++i) {
      op(row, int64_t{p} * Op::kWidth);
      for (p += kThreads; p >= pieces; p -= pieces) ++row;
    }
  }
};

template <class Op>
PieceMap(const Op&, int64_t, int64_t) -> PieceMap<Op>;

// Eight bf16 as floats.
struct Eight {
  static constexpr int kWidth = 8;
  float v[kWidth];

  static DEVICE Eight load(const bfloat16* p) {
    const auto piece = load_piece(p);
    Eight x;
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) x.v[i] = float(piece.v[i]);
    return x;
  }
  // The row of zeros when there is none.
  static DEVICE Eight load_optional(const Rows<const bfloat16>& rows, int64_t row, int64_t column) {
    return rows ? load(rows[row] + column) : Eight{};
  }
  DEVICE void store(bfloat16* p) const {
    Piece<uint32_t> words;
    KERNELS_UNROLL
    for (int i = 0; i < kWidth / 2; ++i) words.v[i] = pack_pair(v[2 * i], v[2 * i + 1]);
    store_piece(reinterpret_cast<uint32_t*>(p), words);
  }
};

// dst = residual + dropout(src + bias).
struct BiasDropoutAddPieces {
  static constexpr int kWidth = 8;
  BiasDropoutAdd<bfloat16> in;

  DEVICE void operator()(int64_t row, int64_t column) const {
    Eight x = Eight::load(in.src[row] + column);
    const Eight b = Eight::load_optional(in.bias, 0, column);
    const Eight r = Eight::load_optional(in.residual, row, column);
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) x.v[i] += b.v[i];
    if (in.dropout.active()) {
      const DropoutRow drop = dropout_row(in.dropout, in.dropout.rows(row));
      KERNELS_UNROLL
      for (int i = 0; i < kWidth; ++i) x.v[i] *= drop.factor(column + i);
    }
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) x.v[i] += r.v[i];
    x.store(in.dst[row] + column);
  }
};

// dst = F(src + bias).
template <class F>
struct BiasActivationPieces {
  static constexpr int kWidth = 8;
  BiasActivationForward<bfloat16, F> in;

  DEVICE void operator()(int64_t row, int64_t column) const {
    Eight x = Eight::load(in.src[row] + column);
    const Eight b = Eight::load_optional(in.bias, 0, column);
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) x.v[i] = F::value(x.v[i] + b.v[i]);
    x.store(in.dst[row] + column);
  }
};

// grad_src = grad_dst · F'(src + bias).
template <class F>
struct BiasActivationBackwardPieces {
  static constexpr int kWidth = 8;
  BiasActivationBackward<bfloat16, F> in;

  DEVICE void operator()(int64_t row, int64_t column) const {
    Eight dy = Eight::load(in.grad_dst[row] + column);
    const Eight x = Eight::load(in.src[row] + column);
    const Eight b = Eight::load_optional(in.bias, 0, column);
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) dy.v[i] *= F::slope(x.v[i] + b.v[i]);
    dy.store(in.grad_src[row] + column);
  }
};

// dst = F(gate) · up.
template <class F>
struct GatedPieces {
  static constexpr int kWidth = 8;
  GatedForward<bfloat16, F> in;

  DEVICE void operator()(int64_t row, int64_t column) const {
    Eight x = Eight::load(in.gate[row] + column);
    const Eight u = Eight::load(in.up[row] + column);
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) x.v[i] = F::value(x.v[i]) * u.v[i];
    x.store(in.dst[row] + column);
  }
};

template <class F>
struct GatedBackwardPieces {
  static constexpr int kWidth = 8;
  GatedBackward<bfloat16, F> in;

  DEVICE void operator()(int64_t row, int64_t column) const {
    const Eight dy = Eight::load(in.grad_dst[row] + column);
    Eight g = Eight::load(in.gate[row] + column);
    Eight u = Eight::load(in.up[row] + column);
    KERNELS_UNROLL
    for (int i = 0; i < kWidth; ++i) {
      const float grad_gated = dy.v[i] * u.v[i];
      u.v[i] = dy.v[i] * F::value(g.v[i]);
      g.v[i] = grad_gated * F::slope(g.v[i]);
    }
    g.store(in.grad_gate[row] + column);
    u.store(in.grad_up[row] + column);
  }
};

// Rotary position embedding: eight pairs at a time, numbered through all heads of a token.
struct RotaryPieces {
  static constexpr int kWidth = 8;
  Rotary<bfloat16> in;

  DEVICE void operator()(int64_t token, int64_t pair) const {
    const int half = static_cast<int>(in.dim / 2);
    const int head = static_cast<int>(pair) / half, first = static_cast<int>(pair) - head * half;
    bfloat16* at = in.data[token] + head * in.head_dim + first;
    const float* cosines = in.table[in.positions.data[token]] + first;
    Eight x = Eight::load(at), y = Eight::load(at + half);
    KERNELS_UNROLL
    for (int part = 0; part < 2; ++part) {
      const auto cosine = load_piece(cosines + 4 * part);
      const auto sine = load_piece(cosines + half + 4 * part);
      KERNELS_UNROLL
      for (int i = 0; i < 4; ++i) {
        float &a = x.v[4 * part + i], &b = y.v[4 * part + i];
        const float s = in.direction * sine.v[i], turned = a * cosine.v[i] - b * s;
        b = b * cosine.v[i] + a * s;
        a = turned;
      }
    }
    x.store(at);
    y.store(at + half);
  }
};

}  // namespace kernels::cuda
