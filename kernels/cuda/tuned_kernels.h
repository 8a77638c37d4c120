// TunedKernels: the op set of a CUDA device, with hand-tuned kernels where they fit the operands
// and the generic bodies elsewhere.
//
// Beside what BasicKernels asks (basic_kernels.h) a launcher has
//   blocks(count, kernel)   runs the blocks [0, count) of a kernel as cuda/block.h describes it
//   scratch(bytes)          device memory, aligned to 16 bytes, for what kernels of one op hand to
//                           each other: it is the launcher's, and the next op may write over it
#pragma once
#include "kernels/basic_kernels.h"
#include "kernels/cuda/flash_attention_keys.h"

namespace kernels {

template <class Launcher>
class TunedKernels : public BasicKernels<Launcher> {
 public:
  using Basic = BasicKernels<Launcher>;
  using Basic::Basic;

  void attention_forward(ConstView query, ConstView key, ConstView value, View out, View log_sum,
                         const AttentionShape& s) override {
    if (!fits_flash(s, query, key, value, out))
      return Basic::attention_forward(query, key, value, out, log_sum, s);
    const Require require("attention_forward");
    const auto in = attention_operands<bfloat16>(require, query, key, value, s);
    require.shape(out, DType::bf16, query.rows, query.cols, "out")
        .shape(log_sum, DType::f32, s.sequences * s.heads, s.queries, "log_sum");
    with_head_dim(s.head_dim, [&]<int kHeadDim>() {
      using Forward = cuda::FlashForward<kHeadDim>;
      blocks(Forward::blocks(s), Forward{in, rows_of<bfloat16>(out), rows_of<float>(log_sum)});
    });
  }

  void attention_backward(ConstView query, ConstView key, ConstView value, ConstView out,
                          ConstView log_sum, ConstView grad_out, View grad_query, View grad_key,
                          View grad_value, const AttentionShape& s) override {
    if (!fits_flash(s, query, key, value, out, grad_out, grad_query, grad_key, grad_value))
      return Basic::attention_backward(query, key, value, out, log_sum, grad_out, grad_query,
                                       grad_key, grad_value, s);
    const auto [in, read] = backward_operands<bfloat16>(query, key, value, out, log_sum, grad_out,
                                                        grad_query, grad_key, grad_value, s);
    auto* along = static_cast<float*>(
        this->launcher().scratch(s.sequences * s.heads * s.queries * int64_t{sizeof(float)}));
    const cuda::FlashAlong sums{s, in.query_rows, read.out, read.grad_out, along};
    blocks(sums.blocks(), sums);
    const cuda::FlashSaved saved{read.grad_out, read.log_sum, along};
    with_head_dim(s.head_dim, [&, in = in]<int kHeadDim>() {
      using Query = cuda::FlashBackwardQuery<kHeadDim>;
      using Key = cuda::FlashBackwardKey<kHeadDim>;
      blocks(Query::blocks(s), Query{in, saved, rows_of<bfloat16>(grad_query)});
      blocks(Key::blocks(s),
             Key{in, saved, rows_of<bfloat16>(grad_key), rows_of<bfloat16>(grad_value)});
    });
  }

 private:
  template <class Kernel>
  void blocks(int64_t count, const Kernel& kernel) {
    if (count > 0) this->launcher().blocks(count, kernel);
  }

  // Heads of 64 and 128 in bf16, all operands in pieces of 16 bytes.
  template <class... Views>
  static bool fits_flash(const AttentionShape& s, const Views&... views) {
    return (s.head_dim == 64 || s.head_dim == 128) && s.scale > 0 &&
           ((views.type == DType::bf16 && !views.empty()) && ...) && cuda::all_in_pieces(views...);
  }
  template <class F>
  static void with_head_dim(int64_t head_dim, F f) {
    if (head_dim == 64) return f.template operator()<64>();
    f.template operator()<128>();
  }
};

}  // namespace kernels
