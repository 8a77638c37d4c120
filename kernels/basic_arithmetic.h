// Plain matrices in BasicKernels: Adam, sums, copies, random values and sampling.
#pragma once
#include "kernels/basic_kernels.h"
#include "kernels/reduce.h"

namespace kernels {

template <class Launcher>
void BasicKernels<Launcher>::adam(ConstView gradient, View master, View mean, View square,
                                  View weights, const AdamStep& step) {
  with_type("adam", weights.empty() ? master.type : weights.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType type = dtype_of<A>();
    const int64_t rows = gradient.rows, cols = gradient.cols;
    Require("adam")
        .that(step.step > 0, "the first step is step 1")
        .shape(gradient, type, rows, cols, "gradient")
        .shape(master, type, rows, cols, "master")
        .shape(mean, type, rows, cols, "mean")
        .shape(square, type, rows, cols, "square")
        .optional(weights, dtype_of<T>(), rows, cols, "weights");
    launch_tiles<T>(gradient, Adam<T>{rows_of<A>(gradient), rows_of<A>(master), rows_of<A>(mean),
                                      rows_of<A>(square), rows_of<T>(weights),
                                      AdamCoefficients<A>(step), tiling(gradient)});
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
void BasicKernels<Launcher>::sum_of_squares(ConstView src, View partials) {
  with_type("sum_of_squares", src.type, [&]<class T>() {
    Require("sum_of_squares")
        .that(src.contiguous(), "src must be contiguous")
        .shape(partials, DType::f64, 1, partials.cols, "partials");
    launch<T>(partials.cols, src.elements() / partials.cols + 1,
              SumOfSquares<T>{static_cast<const T*>(src.data), static_cast<double*>(partials.data),
                              src.elements(), partials.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::total(ConstView src, View dst) {
  Require("total")
      .that(src.type == DType::f32 || src.type == DType::f64, "src must be f32 or f64")
      .that(src.rows == 1, "src must be a vector")
      .shape(dst, DType::f64, 1, 1, "dst");
  double* out = static_cast<double*>(dst.data);
  if (src.type == DType::f32)
    launch<float>(1, src.cols, Total<float>{static_cast<const float*>(src.data), out, src.cols});
  else
    launch<double>(1, src.cols, Total<double>{static_cast<const double*>(src.data), out, src.cols});
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
void BasicKernels<Launcher>::sample(ConstView logits, View ids, const SamplingRule& rule,
                                    Stream stream, const RowMap& rows) {
  with_type("sample", logits.type, [&]<class T>() {
    Require("sample")
        .that(rule.temperature > 0, "temperature must be positive; arg_max is the limit 0")
        .that(rule.top_k >= 0 && rule.top_p > 0 && rule.top_p <= 1,
              "top_k must be 0 or more and top_p in (0, 1]")
        .shape(ids, DType::i32, 1, logits.rows, "ids");
    launch<T>(
        logits.rows, 64 * logits.cols,
        Sample<T>{rows_of<T>(logits), rows_of<int32_t>(ids), logits.cols, rule, stream, rows});
  });
}

}  // namespace kernels
