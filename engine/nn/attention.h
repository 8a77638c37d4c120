// Attention: query, key and value products, the core, and the output product, on this rank's heads.
#pragma once
#include "engine/nn/linear.h"
#include "engine/nn/model_parameters.h"

namespace engine {

class Attention {
 public:
  struct Saved {
    Tensor qkv;      // T[tokens, (heads + 2 · kv_heads) · head_dim], rotated
    Tensor probs;    // unfused: T[sequences · heads · seq, seq]
    Tensor dropped;  // unfused with dropout: the same behind it
    Tensor log_sum;  // fused: A[sequences · heads, seq]
    Tensor out;      // T[tokens, heads · head_dim]
  };

  // Adds its parameters but the output's bias, which is added behind the sum over the tensor axis.
  // `recompute_core` drops the unfused core's matrices and computes them again in the backward pass
  // (Korthikanti et al. 2022, section 5).
  Attention(const LayerContext& context, ModelParameters& parameters, int64_t layer,
            bool recompute_core);

  // input T[tokens, hidden] → partial sums T[tokens, hidden] of memory `out_use`.
  Tensor forward(LayerContext& context, ConstView input, const MicroBatch& batch, Saved& saved,
                 MemoryUse use, MemoryUse out_use) const;
  // grad T[tokens, hidden] → partial sums of the input's gradient, as first_layer_backward() (see
  // region.h), to which `input` may still be on its way. Empties `saved`.
  Tensor backward(LayerContext& context, ConstView grad, ConstView input, const MicroBatch& batch,
                  Saved& saved) const;

 private:
  void rotate(LayerContext& context, View qkv, bool backward) const;
  void core_forward(LayerContext& context, const MicroBatch& batch, Saved& saved,
                    MemoryUse use) const;
  void make_weights(LayerContext& context, const MicroBatch& batch, Saved& saved,
                    MemoryUse use) const;
  void fused_backward(LayerContext& context, ConstView grad_out, const MicroBatch& batch,
                      const Saved& saved, View grad_qkv) const;
  void unfused_backward(LayerContext& context, ConstView grad_out, const MicroBatch& batch,
                        Saved& saved, View grad_qkv) const;
  kernels::AttentionShape shape(const LayerContext& context, const MicroBatch& batch) const;

  // Columns of a [tokens, qkv] matrix.
  template <class V>
  V query_of(const V& qkv) const {
    return qkv.columns(0, heads_.count * head_dim_);
  }
  template <class V>
  V key_of(const V& qkv) const {
    return qkv.columns(heads_.count * head_dim_, heads_.kv_count * head_dim_);
  }
  template <class V>
  V value_of(const V& qkv) const {
    return qkv.columns((heads_.count + heads_.kv_count) * head_dim_, heads_.kv_count * head_dim_);
  }
  int64_t query_width() const { return heads_.count * head_dim_; }
  int64_t qkv_width() const { return (heads_.count + 2 * heads_.kv_count) * head_dim_; }
  int64_t group() const { return heads_.count / heads_.kv_count; }

  int64_t layer_;
  bool fused_, recompute_core_;
  RankHeads heads_;
  int64_t head_dim_;
  double scale_;
  Linear qkv_, out_;
};

}  // namespace engine
