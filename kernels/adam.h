// AdamW (Loshchilov and Hutter 2017, algorithm 2) on full-precision weights, rounded into the
// model: many tensors a launch.
#pragma once
#include "kernels/elementwise.h"

namespace kernels {

struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  int64_t step = 1;           // 1 at the first update, for the bias correction
  double gradient_scale = 1;  // clip factor, averaging
};

// A tensor to update, or a part of one: contiguous operands of one shape.
struct AdamPiece {
  ConstView gradient;
  View master, mean, square;
  View weights;             // master rounded; empty when the master weights are the model's
  double weight_decay = 0;  // decoupled; 0 for norms and biases by custom
};

// The coefficients of one step in the kernel's arithmetic.
template <class A>
struct AdamCoefficients {
  A keep_mean, add_mean, keep_square, add_square, rate, square_correction, epsilon, scale;

  explicit AdamCoefficients(const AdamStep& s)
      : keep_mean(A(s.beta1)),
        add_mean(A(1 - s.beta1)),
        keep_square(A(s.beta2)),
        add_square(A(1 - s.beta2)),
        rate(A(s.learning_rate / (1 - std::pow(s.beta1, static_cast<double>(s.step))))),
        square_correction(A(1 / (1 - std::pow(s.beta2, static_cast<double>(s.step))))),
        epsilon(A(s.epsilon)),
        scale(A(s.gradient_scale)) {}

  // `decay` is the learning rate times the weight decay.
  HOST_DEVICE void update(A gradient, A decay, A& master, A& mean, A& square) const {
    const A gradient_now = gradient * scale;
    mean = keep_mean * mean + add_mean * gradient_now;
    square = keep_square * square + add_square * gradient_now * gradient_now;
    const A size = square_root(square * square_correction) + epsilon;
    master = master - decay * master - rate * mean / size;
  }
};

// The pieces travel in the kernel's parameters, of which CUDA takes 4 KiB; a group works on one
// tile of a piece.
template <class T>
struct Adam {
  using A = Arithmetic<T>;
  static constexpr int kMostPieces = 48;
  static constexpr int64_t kTile = Tiling::kWidth;
  struct Piece {
    const A* gradient;
    A *master, *mean, *square;
    T* weights;  // may be null
    int64_t count, first_item;
    A decay;
  };
  // Elements [first, first + count) of a piece.
  struct PieceTile {
    const Piece& piece;
    int64_t first, count;
  };

  AdamCoefficients<A> k;
  int count = 0;
  int64_t items = 0, elements = 0;
  Piece pieces[kMostPieces];

  explicit Adam(const AdamStep& step) : k(step) {}
  bool is_full() const { return count == kMostPieces; }
  void add(const AdamPiece& p, double learning_rate) {
    const int64_t size = p.gradient.elements();
    pieces[count++] = {static_cast<const A*>(p.gradient.data),
                       static_cast<A*>(p.master.data),
                       static_cast<A*>(p.mean.data),
                       static_cast<A*>(p.square.data),
                       static_cast<T*>(p.weights.data),
                       size,
                       items,
                       A(learning_rate * p.weight_decay)};
    items += (size + kTile - 1) / kTile;
    elements += size;
  }
  HOST_DEVICE PieceTile operator[](int64_t item) const {
    int i = 0;
    while (i + 1 < count && pieces[i + 1].first_item <= item) ++i;
    const int64_t first = (item - pieces[i].first_item) * kTile;
    return {pieces[i], first, smaller(kTile, pieces[i].count - first)};
  }

  template <Group G>
  HOST_DEVICE void operator()(const G& group, int64_t item) const {
    const PieceTile tile = (*this)[item];
    const A* g = tile.piece.gradient + tile.first;
    A* w = tile.piece.master + tile.first;
    A* m = tile.piece.mean + tile.first;
    A* v = tile.piece.square + tile.first;
    const A decay = tile.piece.decay;
    if (tile.piece.weights != nullptr) {
      T* rounded = tile.piece.weights + tile.first;
      each(group, tile.count, [&](int64_t c) {
        k.update(g[c], decay, w[c], m[c], v[c]);
        rounded[c] = T(w[c]);
      });
    } else {
      each(group, tile.count, [&](int64_t c) { k.update(g[c], decay, w[c], m[c], v[c]); });
    }
  }
};

}  // namespace kernels
