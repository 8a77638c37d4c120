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

// Whether every row of every matrix begins at a multiple of 16 bytes. Operands left out do.
template <class T>
inline bool rows_aligned(const Rows<T>& rows) {
  return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 && rows.stride % Piece<T>::kWidth == 0;
}
template <class... Matrices>
bool all_aligned(const Matrices&... matrices) {
  return (rows_aligned(matrices) && ...);
}

}  // namespace kernels::cuda
