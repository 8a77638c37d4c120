// TunedLauncher: a launcher that runs hand-tuned kernels in place of the generic bodies they equal,
// wherever type, shape and alignment of the operands permit.
//
// Operands are checked and kernels chosen where every executor does it, in BasicKernels; a body
// then carries what its replacement needs. Beside what BasicKernels asks (basic_kernels.h) the
// launcher below has
//   blocks(count, kernel)   runs the blocks [0, count) of a kernel as cuda/block.h describes it
//   scratch(bytes)          device memory, aligned to 16 bytes, for what one kernel hands to the
//                           next: it is the launcher's, and the next call may give the same
//   multiprocessors()
#pragma once
#include <array>

#include "kernels/cuda/column_kernels.h"
#include "kernels/cuda/embedding_kernels.h"
#include "kernels/cuda/flash_attention_keys.h"
#include "kernels/cuda/flash_decode.h"
#include "kernels/cuda/optimizer_kernels.h"
#include "kernels/cuda/row_kernels.h"

namespace kernels {

template <class Launcher>
class TunedLauncher : public Launcher {
 public:
  using Launcher::Launcher;

  template <class T, class Body>
  void rows(int64_t count, int64_t work, const Body& body) {
    if (count > 0 && !run_tuned(count, body)) Launcher::template rows<T>(count, work, body);
  }

 private:
  // Whether a hand-tuned kernel was run for the body.
  template <class Body>
  bool run_tuned(int64_t, const Body&) {
    return false;
  }

  bool run_tuned(int64_t, const AttentionForward<bfloat16>& body) {
    const AttentionShape& s = body.in.shape;
    return fits(body.in, body.out) && with_head_dim(s.head_dim, [&]<int kHeadDim>() {
             using Forward = cuda::FlashForward<kHeadDim>;
             this->blocks(Forward::blocks(s), Forward{body.in, body.out, body.log_sum});
           });
  }
  bool run_tuned(int64_t, const AttentionBackwardQuery<bfloat16>& body) {
    const AttentionShape& s = body.in.shape;
    return fits(body.in, body.saved.out, body.saved.grad_out, body.grad_query) &&
           with_head_dim(s.head_dim, [&]<int kHeadDim>() {
             using Query = cuda::FlashBackwardQuery<kHeadDim>;
             this->blocks(Query::blocks(s),
                          Query{body.in, along(body.in, body.saved), body.grad_query});
           });
  }
  bool run_tuned(int64_t, const AttentionBackwardKey<bfloat16>& body) {
    const AttentionShape& s = body.in.shape;
    return fits(body.in, body.saved.out, body.saved.grad_out, body.grad_key, body.grad_value) &&
           with_head_dim(s.head_dim, [&]<int kHeadDim>() {
             using Key = cuda::FlashBackwardKey<kHeadDim>;
             this->blocks(Key::blocks(s),
                          Key{body.in, along(body.in, body.saved), body.grad_key, body.grad_value});
           });
  }

  bool run_tuned(int64_t head_rows, const PagedAttention<bfloat16>& body) {
    const PagedShape& s = body.shape;
    return cuda::all_aligned(body.query, body.key, body.value, body.out) &&
           with_head_dim(s.head_dim, [&]<int kHeadDim>() { decode<kHeadDim>(head_rows, body); });
  }

  bool run_tuned(int64_t rows, const NormForward<bfloat16>& body) {
    return cuda::all_aligned(body.src, body.gain, body.bias, body.dst) &&
           with_norm_threads(body.cols, [&]<int kN>() {
             this->blocks(rows, cuda::NormForwardRow<kN>{{}, body});
           });
  }
  bool run_tuned(int64_t rows, const NormBackward<bfloat16>& body) {
    return cuda::all_aligned(body.grad_dst, body.src, body.gain, body.residual, body.grad_src) &&
           with_norm_threads(body.cols, [&]<int kN>() {
             this->blocks(rows, cuda::NormBackwardRow<kN>{{}, body});
           });
  }
  bool run_tuned(int64_t, const NormParameterGradients<bfloat16>& body) {
    if (!cuda::all_aligned(body.grad_dst, body.src)) return false;
    return sum_columns(cuda::NormTerms{body}, body.rows, body.cols,
                       {body.grad_gain.data, body.grad_bias.data});
  }
  bool run_tuned(int64_t, const ColumnSum<bfloat16>& body) {
    if (!cuda::all_aligned(body.src)) return false;
    return sum_columns(cuda::ColumnSumTerms{body}, body.rows, body.cols, {body.dst.data});
  }

  bool run_tuned(int64_t, const EmbeddingBackward<bfloat16>& body) {
    using Rows = cuda::EmbeddingBackwardRows;
    return body.rows > 0 && body.rows <= Rows::kMostRows && body.cols % 8 == 0 &&
           cuda::all_aligned(body.grad_dst, body.grad_table) && run_rows(body.rows, Rows{body});
  }

  bool run_tuned(int64_t rows, const CrossEntropySums<bfloat16>& body) {
    return cuda::all_aligned(body.logits) && run_rows(rows, cuda::CrossEntropySumsPieces{{}, body});
  }
  bool run_tuned(int64_t rows, const CrossEntropyBackward<bfloat16>& body) {
    return cuda::all_aligned(body.logits) &&
           run_rows(rows, cuda::CrossEntropyBackwardPieces{{}, body});
  }

  bool run_tuned(int64_t tokens, const Rotary<bfloat16>& body) {
    const int64_t half = body.dim / 2;
    if (half % 8 != 0 || body.head_dim % 8 != 0 || !cuda::all_aligned(body.data, body.table))
      return false;
    const cuda::PieceMap kernel(cuda::RotaryPieces{body}, tokens, body.heads * half);
    this->blocks(kernel.blocks(), kernel);
    return true;
  }

  bool run_tuned(int64_t, const BiasDropoutAdd<bfloat16>& body) {
    return cuda::all_aligned(body.src, body.bias, body.residual, body.dst) &&
           map(cuda::BiasDropoutAddPieces{body});
  }
  template <class F>
  bool run_tuned(int64_t, const BiasActivationForward<bfloat16, F>& body) {
    return cuda::all_aligned(body.src, body.bias, body.dst) &&
           map(cuda::BiasActivationPieces<F>{body});
  }
  template <class F>
  bool run_tuned(int64_t, const BiasActivationBackward<bfloat16, F>& body) {
    return cuda::all_aligned(body.grad_dst, body.src, body.bias, body.grad_src) &&
           map(cuda::BiasActivationBackwardPieces<F>{body});
  }
  template <class F>
  bool run_tuned(int64_t, const GatedForward<bfloat16, F>& body) {
    return cuda::all_aligned(body.gate, body.up, body.dst) && map(cuda::GatedPieces<F>{body});
  }
  template <class F>
  bool run_tuned(int64_t, const GatedBackward<bfloat16, F>& body) {
    return cuda::all_aligned(body.grad_dst, body.gate, body.up, body.grad_gate, body.grad_up) &&
           map(cuda::GatedBackwardPieces<F>{body});
  }
  bool run_tuned(int64_t items, const Adam<bfloat16>& body) {
    return run_rows(items, cuda::AdamTiles{body});
  }
  bool run_tuned(int64_t items, const SumsOfSquares<float>& body) {
    return run_rows(items, cuda::SquaresParts{body});
  }

  // Heads of 64 and 128, all operands in pieces of 16 bytes.
  template <class... Matrices>
  static bool fits(const cuda::FlashOperands& in, const Matrices&... matrices) {
    return in.shape.scale > 0 && cuda::all_aligned(in.query, in.key, in.value, matrices...);
  }
  // Whether there are kernels for heads of this size.
  template <class F>
  static bool with_head_dim(int64_t head_dim, F f) {
    if (head_dim == 64)
      f.template operator()<64>();
    else if (head_dim == 128)
      f.template operator()<128>();
    else
      return false;
    return true;
  }
  // Both backward kernels ask, each for itself: it costs one pass over two operands.
  cuda::FlashSaved along(const cuda::FlashOperands& in, const AttentionGradients<bfloat16>& saved) {
    const AttentionShape& s = in.shape;
    auto* sums = static_cast<float*>(
        this->scratch(s.sequences * s.heads * s.queries * int64_t{sizeof(float)}));
    const cuda::FlashAlong kernel{s, in.query_rows, saved.out, saved.grad_out, sums};
    this->blocks(kernel.blocks(), kernel);
    return {saved.grad_out, saved.log_sum, sums};
  }

  template <int kHeadDim>
  void decode(int64_t head_rows, const PagedAttention<bfloat16>& body) {
    using Decode = cuda::FlashDecode<kHeadDim>;
    const int64_t tokens = head_rows / body.shape.heads;
    const int splits = Decode::splits_for(body, tokens, this->multiprocessors());
    cuda::SplitResults results;
    if (splits > 1)
      results = {this->scratch(cuda::SplitResults::scratch_bytes(head_rows, kHeadDim, splits)),
                 head_rows, kHeadDim, splits};
    const Decode kernel{body, results};
    this->blocks(kernel.blocks(tokens), kernel);
    if (splits > 1)
      this->blocks(head_rows, cuda::MergeSplits<kHeadDim>{body.out, body.shape.heads, results});
  }

  template <class F>
  static bool with_norm_threads(int64_t cols, F f) {
    if (cols % 8 != 0 || cols > cuda::NormForwardRow<512>::kMostCols) return false;
    if (cols <= cuda::NormForwardRow<128>::kMostCols)
      f.template operator()<128>();
    else
      f.template operator()<512>();
    return true;
  }
  template <class Terms>
  bool sum_columns(const Terms& terms, int64_t rows, int64_t cols,
                   std::array<float*, Terms::kSums> dst) {
    using Partials = cuda::ColumnPartials<Terms>;
    if (cols % 8 != 0 || rows == 0) return false;
    const int splits = Partials::splits_for(rows, cols, this->multiprocessors());
    auto* partials = static_cast<float*>(this->scratch(Partials::scratch_bytes(cols, splits)));
    const Partials sums{terms, rows, static_cast<int>(cols), splits, partials};
    this->blocks(sums.blocks(), sums);
    cuda::AddColumnPartials<Terms::kSums> add{partials, {}, static_cast<int>(cols), splits};
    for (int n = 0; n < Terms::kSums; ++n) add.dst[n] = dst[static_cast<size_t>(n)];
    this->blocks(add.blocks(), add);
    return true;
  }
  template <class Kernel>
  bool run_rows(int64_t rows, const Kernel& kernel) {
    this->blocks(rows, kernel);
    return true;
  }
  template <class Op>
  bool map(const Op& op) {
    const Tiling& matrix = op.in.tiling;
    if (matrix.cols % Op::kWidth != 0) return false;
    const cuda::PieceMap kernel(op, matrix.rows, matrix.cols);
    this->blocks(kernel.blocks(), kernel);
    return true;
  }
};

}  // namespace kernels
