// Layers in BasicKernels: norms, activations, embedding and cross-entropy.
#pragma once
#include "kernels/basic_kernels.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/norm.h"

namespace kernels {

template <class Launcher>
void BasicKernels<Launcher>::norm_forward(ConstView src, ConstView gain, ConstView bias, View dst,
                                          View mean, View rstd, double epsilon) {
  with_type("norm_forward", src.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType type = dtype_of<T>(), stat = dtype_of<A>();
    Require("norm_forward")
        .shape(gain, type, 1, src.cols, "gain")
        .optional(bias, type, 1, src.cols, "bias")
        .shape(dst, type, src.rows, src.cols, "dst")
        .optional(mean, stat, 1, src.rows, "mean")
        .shape(rstd, stat, 1, src.rows, "rstd");
    launch<T>(src.rows, src.cols,
              NormForward<T>{rows_of<T>(src), rows_of<T>(gain), rows_of<T>(bias), rows_of<T>(dst),
                             rows_of<A>(mean), rows_of<A>(rstd), src.cols, epsilon});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::norm_backward(ConstView grad_dst, ConstView src, ConstView gain,
                                           ConstView mean, ConstView rstd, ConstView residual,
                                           View grad_src) {
  with_type("norm_backward", src.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType type = dtype_of<T>(), stat = dtype_of<A>();
    Require("norm_backward")
        .shape(grad_dst, type, src.rows, src.cols, "grad_dst")
        .shape(gain, type, 1, src.cols, "gain")
        .optional(mean, stat, 1, src.rows, "mean")
        .shape(rstd, stat, 1, src.rows, "rstd")
        .optional(residual, type, src.rows, src.cols, "residual")
        .shape(grad_src, type, src.rows, src.cols, "grad_src");
    launch<T>(src.rows, src.cols,
              NormBackward<T>{rows_of<T>(grad_dst), rows_of<T>(src), rows_of<T>(gain),
                              rows_of<T>(residual), rows_of<A>(mean), rows_of<A>(rstd),
                              rows_of<T>(grad_src), src.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::norm_parameter_gradients(ConstView grad_dst, ConstView src,
                                                      ConstView mean, ConstView rstd,
                                                      View grad_gain, View grad_bias) {
  with_type("norm_parameter_gradients", src.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType stat = dtype_of<A>();
    Require("norm_parameter_gradients")
        .shape(grad_dst, dtype_of<T>(), src.rows, src.cols, "grad_dst")
        .optional(mean, stat, 1, src.rows, "mean")
        .shape(rstd, stat, 1, src.rows, "rstd")
        .shape(grad_gain, stat, 1, src.cols, "grad_gain")
        .optional(grad_bias, stat, 1, src.cols, "grad_bias");
    launch_columns<T>(src.rows, src.cols, [&](int64_t block) {
      return NormParameterGradients<T>{rows_of<T>(grad_dst),
                                       rows_of<T>(src),
                                       rows_of<A>(mean),
                                       rows_of<A>(rstd),
                                       rows_of<A>(grad_gain),
                                       rows_of<A>(grad_bias),
                                       src.rows,
                                       src.cols,
                                       block};
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::bias_dropout_add(ConstView src, ConstView bias, ConstView residual,
                                              View dst, const Dropout& dropout) {
  with_type("bias_dropout_add", src.type, [&]<class T>() {
    const DType type = dtype_of<T>();
    Require("bias_dropout_add")
        .that(dropout.probability >= 0 && dropout.probability < 1, "probability must be in [0, 1)")
        .optional(bias, type, 1, src.cols, "bias")
        .optional(residual, type, src.rows, src.cols, "residual")
        .shape(dst, type, src.rows, src.cols, "dst");
    launch_tiles<T>(src, BiasDropoutAdd<T>{rows_of<T>(src), rows_of<T>(bias), rows_of<T>(residual),
                                           rows_of<T>(dst), dropout, tiling(src)});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::bias_activation_forward(ConstView src, ConstView bias, View dst,
                                                     Activation f) {
  with_type("bias_activation_forward", src.type, [&]<class T>() {
    Require("bias_activation_forward")
        .optional(bias, dtype_of<T>(), 1, src.cols, "bias")
        .shape(dst, dtype_of<T>(), src.rows, src.cols, "dst");
    with_activation(f, [&]<class F>() {
      launch_tiles<T>(src, BiasActivationForward<T, F>{rows_of<T>(src), rows_of<T>(bias),
                                                       rows_of<T>(dst), tiling(src)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::bias_activation_backward(ConstView grad_dst, ConstView src,
                                                      ConstView bias, View grad_src, Activation f) {
  with_type("bias_activation_backward", src.type, [&]<class T>() {
    const DType type = dtype_of<T>();
    Require("bias_activation_backward")
        .shape(grad_dst, type, src.rows, src.cols, "grad_dst")
        .optional(bias, type, 1, src.cols, "bias")
        .shape(grad_src, type, src.rows, src.cols, "grad_src");
    with_activation(f, [&]<class F>() {
      launch_tiles<T>(
          src, BiasActivationBackward<T, F>{rows_of<T>(grad_dst), rows_of<T>(src), rows_of<T>(bias),
                                            rows_of<T>(grad_src), tiling(src)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::gated_forward(ConstView gate, ConstView up, View dst, Activation f) {
  with_type("gated_forward", gate.type, [&]<class T>() {
    Require("gated_forward")
        .shape(up, dtype_of<T>(), gate.rows, gate.cols, "up")
        .shape(dst, dtype_of<T>(), gate.rows, gate.cols, "dst");
    with_activation(f, [&]<class F>() {
      launch_tiles<T>(gate, GatedForward<T, F>{rows_of<T>(gate), rows_of<T>(up), rows_of<T>(dst),
                                               tiling(gate)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::gated_backward(ConstView grad_dst, ConstView gate, ConstView up,
                                            View grad_gate, View grad_up, Activation f) {
  with_type("gated_backward", gate.type, [&]<class T>() {
    const DType type = dtype_of<T>();
    Require("gated_backward")
        .shape(grad_dst, type, gate.rows, gate.cols, "grad_dst")
        .shape(up, type, gate.rows, gate.cols, "up")
        .shape(grad_gate, type, gate.rows, gate.cols, "grad_gate")
        .shape(grad_up, type, gate.rows, gate.cols, "grad_up");
    with_activation(f, [&]<class F>() {
      launch_tiles<T>(
          gate, GatedBackward<T, F>{rows_of<T>(grad_dst), rows_of<T>(gate), rows_of<T>(up),
                                    rows_of<T>(grad_gate), rows_of<T>(grad_up), tiling(gate)});
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::embedding_forward(ConstView table, int64_t first, ConstView ids,
                                               View dst, bool add) {
  with_type("embedding_forward", table.type, [&]<class T>() {
    Require("embedding_forward")
        .shape(ids, DType::i32, 1, dst.rows, "ids")
        .shape(dst, dtype_of<T>(), dst.rows, table.cols, "dst");
    launch<T>(dst.rows, dst.cols,
              EmbeddingForward<T>{rows_of<T>(table), rows_of<int32_t>(ids), rows_of<T>(dst), first,
                                  table.rows, table.cols, add});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::embedding_backward(ConstView grad_dst, ConstView ids, int64_t first,
                                                View grad_table) {
  with_type("embedding_backward", grad_dst.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("embedding_backward")
        .shape(ids, DType::i32, 1, grad_dst.rows, "ids")
        .shape(grad_table, dtype_of<A>(), grad_table.rows, grad_dst.cols, "grad_table");
    launch_columns<T>(grad_dst.rows, grad_dst.cols, [&](int64_t block) {
      return EmbeddingBackward<T>{rows_of<T>(grad_dst),
                                  rows_of<int32_t>(ids),
                                  rows_of<A>(grad_table),
                                  grad_dst.rows,
                                  first,
                                  grad_table.rows,
                                  grad_dst.cols,
                                  block};
    });
  });
}

template <class Launcher>
void BasicKernels<Launcher>::cross_entropy_sums(ConstView logits, ConstView targets, int64_t first,
                                                View top, View sums, View chosen) {
  with_type("cross_entropy_sums", logits.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("cross_entropy_sums")
        .shape(targets, DType::i32, 1, logits.rows, "targets")
        .shape(top, dtype_of<A>(), 1, logits.rows, "top")
        .shape(sums, dtype_of<A>(), 1, logits.rows, "sums")
        .shape(chosen, dtype_of<A>(), 1, logits.rows, "chosen");
    launch<T>(logits.rows, logits.cols,
              CrossEntropySums<T>{rows_of<T>(logits), rows_of<int32_t>(targets), rows_of<A>(top),
                                  rows_of<A>(sums), rows_of<A>(chosen), first, logits.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::cross_entropy_rescale(View sums, ConstView from, ConstView to) {
  with_type("cross_entropy_rescale", sums.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType type = dtype_of<A>();
    Require("cross_entropy_rescale")
        .shape(sums, type, 1, sums.cols, "sums")
        .shape(from, type, 1, sums.cols, "from")
        .shape(to, type, 1, sums.cols, "to");
    launch<A>(
        1, sums.cols,
        CrossEntropyRescale<A>{rows_of<A>(sums), rows_of<A>(from), rows_of<A>(to), sums.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::cross_entropy_losses(ConstView top, ConstView sums, ConstView chosen,
                                                  ConstView targets, View losses) {
  with_type("cross_entropy_losses", sums.type, [&]<class T>() {
    using A = Arithmetic<T>;
    const DType type = dtype_of<A>();
    Require("cross_entropy_losses")
        .shape(top, type, 1, sums.cols, "top")
        .shape(sums, type, 1, sums.cols, "sums")
        .shape(chosen, type, 1, sums.cols, "chosen")
        .shape(targets, DType::i32, 1, sums.cols, "targets")
        .shape(losses, type, 1, sums.cols, "losses");
    launch<A>(1, sums.cols,
              CrossEntropyLoss<A>{rows_of<A>(top), rows_of<A>(sums), rows_of<A>(chosen),
                                  rows_of<int32_t>(targets), rows_of<A>(losses), sums.cols});
  });
}

template <class Launcher>
void BasicKernels<Launcher>::cross_entropy_backward(View logits, ConstView top, ConstView sums,
                                                    ConstView targets, int64_t first,
                                                    double factor) {
  with_type("cross_entropy_backward", logits.type, [&]<class T>() {
    using A = Arithmetic<T>;
    Require("cross_entropy_backward")
        .shape(top, dtype_of<A>(), 1, logits.rows, "top")
        .shape(sums, dtype_of<A>(), 1, logits.rows, "sums")
        .shape(targets, DType::i32, 1, logits.rows, "targets");
    launch<T>(logits.rows, logits.cols,
              CrossEntropyBackward<T>{rows_of<T>(logits), rows_of<A>(top), rows_of<A>(sums),
                                      rows_of<int32_t>(targets), first, logits.cols, factor});
  });
}

}  // namespace kernels
