// Plain matrices in BasicKernels: Adam, sums, copies, random values and sampling.
#pragma once
#include "kernels/basic_kernels.h"

namespace kernels {

// launch(kernel) for kernels made by make() that together hold all pieces, as many as fit in each.
template <class Pieces, class Make, class Add, class Launch>
void launch_pieces(const Pieces& pieces, Make make, Add add, Launch launch) {
  auto kernel = make();
  for (size_t i = 0; i < pieces.size(); ++i) {
    add(kernel, pieces[i]);
    if (!kernel.is_full() && i + 1 < pieces.size()) continue;
    launch(kernel);
    kernel = make();
  }
}

template <class Launcher>
void BasicKernels<Launcher>::adam(std::span<const AdamPiece> pieces, const AdamStep& step) {
  Require("adam").that(step.step > 0, "the first step is step 1");
  if (pieces.empty()) return;
  const View &master = pieces[0].master, &weights = pieces[0].weights;
  with_type("adam", weights.empty() ? master.type : weights.type, [&]<class T>() {
    const auto add = [&](Adam<T>& kernel, const AdamPiece& p) {
      const DType type = dtype_of<Arithmetic<T>>();
      const int64_t rows = p.gradient.rows, cols = p.gradient.cols;
      Require("adam")
          .shape(p.gradient, type, rows, cols, "gradient")
          .shape(p.master, type, rows, cols, "master")
          .shape(p.mean, type, rows, cols, "mean")
          .shape(p.square, type, rows, cols, "square")
          .optional(p.weights, dtype_of<T>(), rows, cols, "weights")
          .that(p.weights.empty() == weights.empty(), "all pieces have weights, or none")
          .that(p.gradient.contiguous() && p.master.contiguous() && p.mean.contiguous() &&
                    p.square.contiguous() && p.weights.contiguous(),
                "operands must be contiguous");
      kernel.add(p, step.learning_rate);
    };
    launch_pieces(
        pieces, [&] { return Adam<T>(step); }, add,
        [&](const Adam<T>& kernel) {
          launch<T>(kernel.items, smaller(kernel.elements, Adam<T>::kTile), kernel);
        });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::column_sum(ConstView src, View dst) {
  with_type("column_sum", src.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("column_sum").shape(dst, dtype_of<A>(), 1, src.cols, "dst");
    launch_columns<T>(src.rows, src.cols, [&](int64_t block) {
      return ColumnSum<T>{rows_of<T>(src), rows_of<A>(dst), src.rows, src.cols, block};
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::sums_of_squares(std::span<const SquaresPiece> pieces, View partials) {
  if (pieces.empty()) return;
  const DType type = pieces[0].src.type;
  int64_t most = 0;
  for (const SquaresPiece& p : pieces) most = larger(most, p.src.elements());
  with_type("sums_of_squares", type, [&]<class T>() {
    const auto add = [&](SumsOfSquares<T>& kernel, const SquaresPiece& p) {
      Require("sums_of_squares")
          .that(p.src.contiguous() && p.src.type == type, "src must be contiguous, of one type")
          .that(p.row >= 0 && p.row < partials.rows, "partials must have the row of every piece")
          .shape(partials, DType::f64, partials.rows, partials.cols, "partials");
      kernel.add(p);
    };
    launch_pieces(
        pieces, [&] { return SumsOfSquares<T>(rows_of<double>(partials), partials.cols); }, add,
        [&](const SumsOfSquares<T>& kernel) {
          launch<T>(kernel.items(), most / partials.cols + 1, kernel);
        });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::total(ConstView src, View dst) {
  Require("total")
      .that(src.type == DType::f32 || src.type == DType::f64, "src must be f32 or f64")
      .shape(dst, DType::f64, 1, src.rows, "dst");
  double* out = static_cast<double*>(dst.data);
  if (src.type == DType::f32)
    launch<float>(src.rows, src.cols, Total<float>{rows_of<float>(src), out, src.cols});
  else
    launch<double>(src.rows, src.cols, Total<double>{rows_of<double>(src), out, src.cols});
}

template <class Launcher>
void BasicKernels<Launcher>::fill(View dst, double value) {
  if (dst.type == DType::i32)
    return launch_tiles<float>(dst, Fill<int32_t>{rows_of<int32_t>(dst), value, tiling(dst)});
  with_type("fill", dst.type, [&]<class T>() {
    launch_tiles<T>(dst, Fill<T>{rows_of<T>(dst), value, tiling(dst)});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::copy(ConstView src, View dst, double factor) {
  Require("copy").shape(dst, dst.type, src.rows, src.cols, "dst");
  if (src.type == DType::i32) {
    Require("copy").that(dst.type == DType::i32 && factor == 1, "ids are copied to ids, unscaled");
    return launch_tiles<float>(
        src, Copy<int32_t, int32_t>{rows_of<int32_t>(src), rows_of<int32_t>(dst), 1, tiling(src)});
  }
  with_type("copy", src.type, [&]<class From>() {
    with_type("copy", dst.type, [&]<class To>() {
      launch_tiles<From>(src,
                         Copy<From, To>{rows_of<From>(src), rows_of<To>(dst), factor, tiling(src)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::accumulate(ConstView src, View dst, double factor) {
  Require("accumulate").shape(dst, dst.type, src.rows, src.cols, "dst");
  with_type("accumulate", src.type, [&]<class From>() {
    with_type("accumulate", dst.type, [&]<class To>() {
      launch_tiles<From>(
          src, Accumulate<From, To>{rows_of<From>(src), rows_of<To>(dst), factor, tiling(src)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::fill_normal(View dst, double deviation, Stream stream,
                                         const RowMap& rows, int64_t first_column) {
  with_type("fill_normal", dst.type, [&]<class T>() {
    launch_tiles<T>(
        dst, FillNormal<T>{rows_of<T>(dst), deviation, stream, rows, first_column, tiling(dst)});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::arg_max(ConstView logits, int64_t first, View ids, View values) {
  with_type("arg_max", logits.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("arg_max")
        .shape(ids, DType::i32, 1, logits.rows, "ids")
        .optional(values, dtype_of<A>(), 1, logits.rows, "values");
    launch<T>(logits.rows, logits.cols,
              ArgMax<T>{rows_of<T>(logits), rows_of<int32_t>(ids), rows_of<A>(values), first,
                        logits.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::sample(ConstView logits, View ids, std::span<const RowDraw> draws) {
  with_type("sample", logits.type, [&]<class T>() {
    Require("sample").shape(ids, DType::i32, 1, logits.rows, "ids");
    const auto add = [&](Sample<T>& kernel, const RowDraw& draw) {
      const SamplingRule& rule = draw.rule;
      Require("sample")
          .that(draw.row >= 0 && draw.row < logits.rows, "a draw must name a row of the logits")
          .that(rule.temperature > 0, "temperature must be positive; arg_max is the limit 0")
          .that(rule.top_k >= 0 && rule.top_p > 0 && rule.top_p <= 1,
                "top_k must be 0 or more and top_p in (0, 1]");
      kernel.add(draw);
    };
    launch_pieces(
        draws, [&] { return Sample<T>(rows_of<T>(logits), rows_of<int32_t>(ids), logits.cols); },
        add, [&](const Sample<T>& kernel) { launch<T>(kernel.count, 64 * logits.cols, kernel); });
  });
}

}  // namespace kernels
