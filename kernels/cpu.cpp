// The CPU's kernels: the generic bodies on serial groups, with attention in tiles.
#include "kernels/attention_tile_backward.h"
#include "kernels/basic_kernels.h"
#include "kernels/launch_host.h"

namespace kernels {

InstructionSet best_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return InstructionSet::x86_64_v4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return InstructionSet::x86_64_v3;
#endif
  return InstructionSet::baseline;
}

namespace {

class CpuKernels final : public BasicKernels<HostLauncher> {
 public:
  using Basic = BasicKernels<HostLauncher>;
  using Basic::Basic;

  void attention_forward(ConstView query, ConstView key, ConstView value, View out, View log_sum,
                         const AttentionShape& s) override {
    if (!in_tiles(query.type, s))
      return Basic::attention_forward(query, key, value, out, log_sum, s);
    with_tile_type(query.type, [&]<class T>() {
      const Require require("attention_forward");
      const auto in = attention_operands<T>(require, query, key, value, s);
      require.shape(out, dtype_of<T>(), query.rows, query.cols, "out")
          .shape(log_sum, DType::f32, s.sequences * s.heads, s.queries, "log_sum");
      launch<T>(s.sequences * s.heads * tiles(s.queries), kLanes * s.keys,
                AttentionTileForward<T>{in, rows_of<T>(out), rows_of<float>(log_sum)});
    });
  }

  void attention_backward(ConstView query, ConstView key, ConstView value, ConstView out,
                          ConstView log_sum, ConstView grad_out, View grad_query, View grad_key,
                          View grad_value, const AttentionShape& s) override {
    if (!in_tiles(query.type, s))
      return Basic::attention_backward(query, key, value, out, log_sum, grad_out, grad_query,
                                       grad_key, grad_value, s);
    with_tile_type(query.type, [&]<class T>() {
      const auto [in, saved] = backward_operands<T>(query, key, value, out, log_sum, grad_out,
                                                    grad_query, grad_key, grad_value, s);
      launch<T>(s.sequences * s.kv_heads, s.heads / s.kv_heads * s.queries * s.keys,
                AttentionTileBackward<T>{in, saved, rows_of<T>(grad_query), rows_of<T>(grad_key),
                                         rows_of<T>(grad_value)});
    });
  }

 private:
  // A tile fills its lanes with queries: for the few of a decoding step the plain form is faster.
  static bool in_tiles(DType type, const AttentionShape& s) {
    return type != DType::f64 && s.head_dim <= kTileHeadDim && s.queries >= 8;
  }
  static int64_t tiles(int64_t tokens) { return (tokens + kLanes - 1) / kLanes; }
  template <class F>
  static void with_tile_type(DType type, F f) {
    if (type == DType::bf16) return f.template operator()<bfloat16>();
    f.template operator()<float>();
  }
};

}  // namespace

std::unique_ptr<Kernels> make_cpu_kernels(int threads, InstructionSet set) {
  Require("make_cpu_kernels")
      .that(threads > 0, "threads must be positive")
      .that(set <= best_instruction_set(), "the processor must have the instruction set");
  return std::make_unique<CpuKernels>(HostLauncher(threads, set));
}

}  // namespace kernels
