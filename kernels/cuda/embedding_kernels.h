// The gradient of an embedding table: rows of one id are added by one block, in their order, so
// that all rows of a batch are under way at once and the sum is that of the generic body.
#pragma once
#include "kernels/cuda/piece_map.h"
#include "kernels/embedding.h"

namespace kernels::cuda {

// As EmbeddingBackward (embedding.h), a row of grad_dst a block: the first of an id adds all of
// them, and the others have nothing to do.
struct EmbeddingBackwardRows {
  static constexpr int kThreads = 256, kBlocks = 4;
  static constexpr int64_t kMostRows = int64_t{1} << 24;  // a float tells them apart
  EmbeddingBackward<bfloat16> in;

  int64_t shared_bytes() const { return kThreads / kWarpSize * int64_t{sizeof(float)}; }
  template <ThreadBlock B>
  DEVICE void operator()(const B& block) const {
    auto* slots = reinterpret_cast<float*>(block.shared());
    const int rows = static_cast<int>(in.rows), first = static_cast<int>(block.index());
    const int32_t id = in.ids.data[first];
    const int64_t local = id - in.first;
    if (local < 0 || local >= in.count) return;
    float earlier = 0;
    for (int row = block.thread(); row < first; row += kThreads)
      if (in.ids.data[row] == id) earlier = 1;
    if (block_max<kThreads>(block, earlier, slots) > 0) return;
    for (int row = first; row < rows; row = next(block, row + 1, rows, id, slots))
      add(block, row, local);
  }

 private:
  // The first row of the id in [from, rows), or `rows`.
  template <ThreadBlock B>
  DEVICE int next(const B& block, int from, int rows, int32_t id, float* slots) const {
    for (; from < rows; from += kThreads) {
      const int row = from + block.thread();
      const bool found = row < rows && in.ids.data[row] == id;
      const float nearest =
          block_max<kThreads>(block, found ? -static_cast<float>(row) : -kInfinity, slots);
      if (nearest > -kInfinity) return static_cast<int>(-nearest);
    }
    return rows;
  }
  // A thread adds to the same columns in every row.
  template <ThreadBlock B>
  DEVICE void add(const B& block, int row, int64_t local) const {
    for (int column = block.thread() * 8; column < static_cast<int>(in.cols);
         column += kThreads * 8) {
      const Eight dy = Eight::load(in.grad_dst[row] + column);
      float* sums = in.grad_table[local] + column;
      KERNELS_UNROLL
      for (int part = 0; part < 8; part += 4) {
        auto sum = load_piece(sums + part);
        KERNELS_UNROLL
        for (int i = 0; i < 4; ++i) sum.v[i] += dy.v[part + i];
        store_piece(sums + part, sum);
      }
    }
  }
};

}  // namespace kernels::cuda
