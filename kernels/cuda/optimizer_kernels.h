// What an optimizer does to all tensors of a model, a few launches for all: AdamW and sums of
// squares, four f32 at a time wherever a tensor is aligned to them.
#pragma once
#include "kernels/adam.h"
#include "kernels/cuda/piece.h"
#include "kernels/reduce.h"

namespace kernels::cuda {

template <int kBytes, class... Pointers>
DEVICE bool pointers_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & (kBytes - 1)) == 0;
}

// As Adam (adam.h), a tile a block.
struct AdamTiles {
  static constexpr int kThreads = 256, kBlocks = 4;
  Adam<bfloat16> in;

  int64_t shared_bytes() const { return 0; }
  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const auto tile = in[block.index()];
    const auto& p = tile.piece;
    const bool aligned = pointers_aligned<16>(p.gradient, p.master, p.mean, p.square) &&
                         pointers_aligned<8>(p.weights);
    const int count = static_cast<int>(tile.count), whole = aligned ? count / 4 * 4 : 0;
    KERNELS_NO_UNROLL
    for (int i = block.thread() * 4; i < whole; i += kThreads * 4) four(p, tile.first + i);
    for (int i = whole + block.thread(); i < count; i += kThreads) {
      const int64_t c = tile.first + i;
      in.k.update(p.gradient[c], p.decay, p.master[c], p.mean[c], p.square[c]);
      if (p.weights != nullptr) p.weights[c] = bfloat16(p.master[c]);
    }
  }

 private:
  DEVICE void four(const Adam<bfloat16>::Piece& p, int64_t first) const {
    const auto g = load_piece(p.gradient + first);
    auto w = load_piece(p.master + first);
    auto m = load_piece(p.mean + first);
    auto v = load_piece(p.square + first);
    KERNELS_UNROLL
    for (int i = 0; i < 4; ++i) in.k.update(g.v[i], p.decay, w.v[i], m.v[i], v.v[i]);
    store_piece(p.master + first, w);
    store_piece(p.mean + first, m);
    store_piece(p.square + first, v);
    if (p.weights == nullptr) return;
    // In one access, too.
    *reinterpret_cast<uint64_t*>(p.weights + first) =
        pack_pair(w.v[0], w.v[1]) | uint64_t{pack_pair(w.v[2], w.v[3])} << 32;
  }
};

// As SumsOfSquares (reduce.h), a part a block.
struct SquaresParts {
  static constexpr int kThreads = 256, kBlocks = 4;
  SumsOfSquares<float> in;

  int64_t shared_bytes() const { return kThreads * int64_t{sizeof(double)}; }
  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    const auto part = in[block.index()];
    const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(part.src) / 4 % 4);
    const int64_t head = smaller(part.count, (4 - misplaced) % 4);
    const int64_t end = head + (part.count - head) / 4 * 4;
    double sum = 0;
    const auto add = [&](float x) { sum += static_cast<double>(x) * static_cast<double>(x); };
    KERNELS_UNROLL_TWICE
    for (int64_t i = head + block.thread() * 4; i < end; i += kThreads * 4) {
      const auto piece = load_piece(part.src + i);
      KERNELS_UNROLL
      for (const float x : piece.v) add(x);
    }
    const int thread = block.thread();
    if (thread < head) add(part.src[thread]);
    if (thread < part.count - end) add(part.src[end + thread]);
    auto* sums = reinterpret_cast<double*>(block.shared());
    sums[thread] = sum;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      block.sync();
      if (thread < half) sums[thread] += sums[thread + half];
    }
    if (thread == 0) *part.sum = sums[0];
  }
};

}  // namespace kernels::cuda
