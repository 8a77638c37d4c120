// Piece: 16 aligned bytes of a row, which a GPU reads or writes in one access.
#pragma once
#include <cstdint>

#include "kernels/cuda/block.h"
#include "kernels/view.h"

namespace kernels::cuda {

template <class T>
struct alignas(16) Piece {
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  T v[kWidth];
};

template <class T>
DEVICE Piece<T> load_piece(const T* p) {
  return *reinterpret_cast<const Piece<T>*>(p);
}
template <class T>
DEVICE void store_piece(T* p, const Piece<T>& piece) {
  *reinterpret_cast<Piece<T>*>(p) = piece;
}

// Whether all rows of a matrix begin at multiples of 16 bytes and hold whole pieces. Operands left
// out do.
inline bool in_pieces(const ConstView& view) {
  const int64_t width = 16 / bytes_of(view.type);
  return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && view.cols % width == 0 &&
         (view.rows <= 1 || view.stride % width == 0);
}
template <class... Views>
bool all_in_pieces(const Views&... views) {
  return (in_pieces(views) && ...);
}

}  // namespace kernels::cuda
