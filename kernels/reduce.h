// Sums over columns, rows and whole matrices, each in a fixed order.
#pragma once
#include "kernels/view.h"

namespace kernels {

// dst += Σ_rows src: the gradient of a bias. A group owns a block of columns.
template <class T>
struct ColumnSum {
  using A = Arithmetic<T>;
  Rows<const T> src;
  Rows<A> dst;  // [1, cols]
  int64_t rows, cols, block;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t index) const {
    const int64_t first = index * block;
    A* y = dst.data + first;
    for (int64_t row = 0; row < rows; ++row) {
      const T* x = src[row] + first;
      each(group, smaller(block, cols - first), [&](int64_t c) { y[c] += A(x[c]); });
    }
  }
};

// A contiguous tensor whose squares are summed, and the row of the partial sums it goes to.
struct SquaresPiece {
  ConstView src;
  int64_t row = 0;
};

// partials[piece.row, i] = the sum of squares of the i-th of `parts` equal parts of a piece. The
// pieces travel in the kernel's parameters; a part a group.
template <class T>
struct SumsOfSquares {
  static constexpr int kMostPieces = 128;
  struct Piece {
    const T* src;
    int64_t count, row;
  };
  struct Part {
    const T* src;
    int64_t count;
    double* sum;
  };
  Rows<double> partials;
  int64_t parts;
  int count = 0;
  Piece pieces[kMostPieces];

  SumsOfSquares(Rows<double> partials_, int64_t parts_) : partials(partials_), parts(parts_) {}
  bool is_full() const { return count == kMostPieces; }
  int64_t items() const { return count * parts; }
  void add(const SquaresPiece& p) {
    pieces[count++] = {static_cast<const T*>(p.src.data), p.src.elements(), p.row};
  }
  HOST_DEVICE Part operator[](int64_t item) const {
    const Piece& piece = pieces[item / parts];
    const int64_t part = item % parts;
    const int64_t first = piece.count * part / parts;
    return {piece.src + first, piece.count * (part + 1) / parts - first,
            partials[piece.row] + part};
  }

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const Part part = (*this)[item];
    const double total = sum_each<double>(group, part.count, [&](int64_t i) {
      const double x = static_cast<double>(Arithmetic<T>(part.src[i]));
      return x * x;
    });
    if (group.rank() == 0) *part.sum = total;
  }
};

// dst[row] = Σ of the row of src, in double. A row a group.
template <class A>
struct Total {
  Rows<const A> src;
  double* dst;
  int64_t cols;

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t row) const {
    const A* x = src[row];
    const double total =
        sum_each<double>(group, cols, [&](int64_t i) { return static_cast<double>(x[i]); });
    if (group.rank() == 0) dst[row] = total;
  }
};

}  // namespace kernels
