// Speed of the CPU's kernels: memory-bound ones as a fraction of memcpy's bandwidth, attention and
// products as a fraction of oneDNN's rate at a square product, both measured in the same run, on
// one thread and by processor time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <tuple>

#include "engine/tensor/tensor.h"

namespace {

using engine::DType;
using engine::MemoryUse;
using engine::Tensor;
using kernels::Activation;
using kernels::Kernels;

constexpr int64_t kRows = 4096;
constexpr int64_t kCols = 2048;

// A device of one thread.
struct Bench {
  Tensor make(DType type, std::vector<int64_t> shape) {
    Tensor tensor(*device, std::move(shape), type, MemoryUse::workspace);
    if (type == DType::i32)
      for (int64_t i = 0; i < tensor.elements(); ++i) tensor.as<int32_t>()[i] = int32_t(i % 1000);
    else
      device->kernels().fill_normal(tensor, 1, {7}, {}, 0);
    return tensor;
  }
  std::unique_ptr<engine::Device> device = engine::make_cpu_device(1);
};

// The least processor time of a few calls: other work on the machine does not count.
double seconds_of(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 9; ++i) {
    const std::clock_t start = std::clock();
    work();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

// Bytes read and written per second by memcpy.
double copy_bandwidth() {
  Bench bench;
  const Tensor from = bench.make(DType::f32, {kRows, kCols});
  const Tensor to = bench.make(DType::f32, {kRows, kCols});
  return 2.0 * static_cast<double>(from.bytes()) / seconds_of([&] {
           std::memcpy(to.data(), from.data(), static_cast<size_t>(from.bytes()));
         });
}

// FLOP/s of a square product.
double matmul_rate(DType type) {
  Bench bench;
  constexpr int64_t kSize = 1024;
  const Tensor a = bench.make(type, {kSize, kSize}), b = bench.make(type, {kSize, kSize});
  const Tensor c = bench.make(type, {kSize, kSize});
  engine::Matmul product;
  product.a = a;
  product.b = b;
  product.c = c;
  return 2.0 * kSize * kSize * kSize / seconds_of([&] { bench.device->matmul(product); });
}

using Work = std::function<void(Kernels&)>;

// `make` builds the operands and the work; `bytes` is what the work must read and write.
void memory_case(const std::string& name, double bytes, std::function<Work(Bench&)> make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    Bench bench;
    const Work work = make(bench);
    const double copy = copy_bandwidth();
    for (auto _ : state) work(bench.device->kernels());
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
    state.counters["of_memcpy"] = Counter(bytes / copy, Counter::kIsIterationInvariantRate);
  })->Unit(benchmark::kMillisecond);
}

void compute_case(const std::string& name, DType type, double flops,
                  std::function<std::function<void()>(Bench&)> make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    Bench bench;
    const auto work = make(bench);
    const double rate = matmul_rate(type);
    for (auto _ : state) work();
    using benchmark::Counter;
    state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
    state.counters["of_matmul"] = Counter(flops / rate, Counter::kIsIterationInvariantRate);
  })->Unit(benchmark::kMillisecond);
}

// Operands shared by the work's closure.
template <class... Tensors>
auto hold(Tensors&&... tensors) {
  return std::make_shared<std::tuple<Tensors...>>(std::move(tensors)...);
}

void register_norms(DType type, const std::string& suffix, double matrix) {
  const auto operands = [type](Bench& bench) {
    return hold(bench.make(type, {kRows, kCols}), bench.make(type, {kRows, kCols}),
                bench.make(type, {kRows, kCols}), bench.make(type, {1, kCols}),
                bench.make(DType::f32, {1, kRows}), bench.make(DType::f32, {1, kRows}),
                bench.make(DType::f32, {1, kCols}));
  };
  memory_case("layer_norm_forward/" + suffix, 2 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, gain, mean, rstd, grad] = *held;
      k.norm_forward(x, gain, gain, y, mean, rstd, 1e-5);
    };
  });
  memory_case("rms_norm_forward/" + suffix, 2 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, gain, mean, rstd, grad] = *held;
      k.norm_forward(x, gain, {}, y, {}, rstd, 1e-5);
    };
  });
  memory_case("layer_norm_backward/" + suffix, 3 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, gain, mean, rstd, grad] = *held;
      k.norm_backward(dy, x, gain, mean, rstd, {}, y);
    };
  });
  memory_case("norm_parameter_gradients/" + suffix, 2 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, gain, mean, rstd, grad] = *held;
      k.norm_parameter_gradients(dy, x, mean, rstd, grad, grad);
    };
  });
  memory_case("column_sum/" + suffix, matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      k.column_sum(std::get<0>(*held), std::get<6>(*held));
    };
  });
}

void register_elementwise(DType type, const std::string& suffix, double matrix) {
  const auto operands = [type](Bench& bench) {
    return hold(bench.make(type, {kRows, kCols}), bench.make(type, {kRows, kCols}),
                bench.make(type, {kRows, kCols}), bench.make(type, {1, kCols}));
  };
  for (const auto& [name, f] :
       {std::pair{"gelu", Activation::gelu}, std::pair{"gelu_tanh", Activation::gelu_tanh}}) {
    memory_case(std::string("bias_") + name + "_forward/" + suffix, 2 * matrix,
                [=, f = f](Bench& bench) -> Work {
                  return [=, held = operands(bench)](Kernels& k) {
                    auto& [x, dy, y, bias] = *held;
                    k.bias_activation_forward(x, bias, y, f);
                  };
                });
    memory_case(std::string("bias_") + name + "_backward/" + suffix, 3 * matrix,
                [=, f = f](Bench& bench) -> Work {
                  return [=, held = operands(bench)](Kernels& k) {
                    auto& [x, dy, y, bias] = *held;
                    k.bias_activation_backward(dy, x, bias, y, f);
                  };
                });
  }
  memory_case("swiglu_forward/" + suffix, 3 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, bias] = *held;
      k.gated_forward(x, dy, y, Activation::silu);
    };
  });
  for (const float p : {0.0f, 0.1f})
    memory_case(std::string(p > 0 ? "bias_dropout_add/" : "bias_add_residual/") + suffix,
                3 * matrix, [=](Bench& bench) -> Work {
                  return [=, held = operands(bench)](Kernels& k) {
                    auto& [x, residual, y, bias] = *held;
                    k.bias_dropout_add(x, bias, residual, y, {p, {9}, {}, 0});
                  };
                });
  memory_case("softmax_forward/" + suffix, 2 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, bias] = *held;
      k.softmax_forward(x, y, kRows, false, 1);
    };
  });
  memory_case("softmax_backward/" + suffix, 3 * matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [x, dy, y, bias] = *held;
      k.softmax_backward(dy, x, y, kRows, false, 1, {});
    };
  });
  memory_case("copy_to_f32/" + suffix, matrix + 4.0 * kRows * kCols, [=](Bench& bench) -> Work {
    return [held = hold(bench.make(type, {kRows, kCols}), bench.make(DType::f32, {kRows, kCols}))](
               Kernels& k) { k.copy(std::get<0>(*held), std::get<1>(*held)); };
  });
}

void register_losses_and_adam(DType type, const std::string& suffix, double matrix) {
  const auto operands = [type](Bench& bench) {
    return hold(bench.make(type, {kRows, kCols}), bench.make(DType::i32, {1, kRows}),
                bench.make(DType::f32, {1, kRows}), bench.make(DType::f32, {1, kRows}),
                bench.make(DType::f32, {1, kRows}));
  };
  memory_case("cross_entropy_sums/" + suffix, matrix, [=](Bench& bench) -> Work {
    return [held = operands(bench)](Kernels& k) {
      auto& [logits, targets, top, sums, chosen] = *held;
      k.cross_entropy_sums(logits, targets, 0, top, sums, chosen);
    };
  });
  memory_case("cross_entropy_backward/" + suffix, 2 * matrix, [=](Bench& bench) -> Work {
    auto held = operands(bench);
    bench.device->kernels().fill(std::get<2>(*held), 0);
    bench.device->kernels().fill(std::get<3>(*held), 1);
    return [held](Kernels& k) {
      auto& [logits, targets, top, sums, chosen] = *held;
      k.cross_entropy_backward(logits, top, sums, targets, 0, 1e-3);
    };
  });
  // Reads gradient, master and moments; writes master, moments and, if it has them, bf16 weights.
  const bool rounded = type == DType::bf16;
  memory_case(
      "adam/" + suffix, kRows * kCols * (7 * 4.0 + (rounded ? 2 : 0)), [=](Bench& bench) -> Work {
        auto held =
            hold(bench.make(DType::f32, {kRows, kCols}), bench.make(DType::f32, {kRows, kCols}),
                 bench.make(DType::f32, {kRows, kCols}), bench.make(DType::f32, {kRows, kCols}),
                 bench.make(type, {kRows, kCols}));
        bench.device->kernels().fill(std::get<3>(*held), 1);
        return [=](Kernels& k) {
          auto& [g, w, m, v, weights] = *held;
          const kernels::AdamPiece all{g, w, m, v, rounded ? weights.view() : engine::View()};
          k.adam({&all, 1}, {});
        };
      });
  memory_case("sums_of_squares/" + suffix, matrix, [=](Bench& bench) -> Work {
    return [held = hold(bench.make(type, {kRows, kCols}), bench.make(DType::f64, {1, 256}))](
               Kernels& k) {
      const kernels::SquaresPiece all{std::get<0>(*held)};
      k.sums_of_squares({&all, 1}, std::get<1>(*held));
    };
  });
}

void register_attention(DType type, const std::string& suffix) {
  for (const auto& [seq, dim] : {std::pair<int64_t, int64_t>{512, 64}, {512, 128}, {2048, 64}})
    for (const bool causal : {false, true}) {
      kernels::AttentionShape shape;
      shape.queries = shape.keys = seq;
      shape.heads = shape.kv_heads = 8;
      shape.head_dim = dim;
      shape.scale = 0.125;
      shape.causal = causal;
      const double flops = 4.0 * static_cast<double>(8 * seq * seq * dim) * (causal ? 0.5 : 1);
      const std::string name = "/" + suffix + "/s" + std::to_string(seq) + "/d" +
                               std::to_string(dim) + (causal ? "/causal" : "/full");
      const auto operands = [=, seq = seq, dim = dim](Bench& bench) {
        return hold(bench.make(type, {seq, 3 * 8 * dim}), bench.make(type, {seq, 8 * dim}),
                    bench.make(type, {seq, 8 * dim}), bench.make(type, {seq, 3 * 8 * dim}),
                    bench.make(DType::f32, {8, seq}));
      };
      const auto part = [dim = dim](const Tensor& qkv, int index) {
        return qkv.view().columns(index * 8 * dim, 8 * dim);
      };
      compute_case("attention_forward" + name, type, flops, [=](Bench& bench) {
        return [=, &bench, held = operands(bench)] {
          auto& [qkv, y, dy, grads, log_sum] = *held;
          bench.device->kernels().attention_forward(part(qkv, 0), part(qkv, 1), part(qkv, 2), y,
                                                    log_sum, shape);
        };
      });
      compute_case("attention_backward" + name, type, 2.5 * flops, [=](Bench& bench) {
        auto held = operands(bench);
        auto& [x, out, unused, more, sums] = *held;
        bench.device->kernels().attention_forward(part(x, 0), part(x, 1), part(x, 2), out, sums,
                                                  shape);
        return [=, &bench] {
          auto& [qkv, y, dy, grads, log_sum] = *held;
          bench.device->kernels().attention_backward(part(qkv, 0), part(qkv, 1), part(qkv, 2), y,
                                                     log_sum, dy, part(grads, 0), part(grads, 1),
                                                     part(grads, 2), shape);
        };
      });
    }
}

void register_products(DType type, const std::string& suffix) {
  struct Case {
    const char* name;
    int64_t m, n, k;
    bool transpose_a, transpose_b;
  };
  for (const Case& c : {Case{"qkv", 2048, 2304, 768, false, false},
                        Case{"mlp_transposed", 2048, 3072, 768, false, true},
                        Case{"weight_gradient", 768, 3072, 2048, true, false}})
    compute_case(std::string("matmul_") + c.name + "/" + suffix, type,
                 2.0 * static_cast<double>(c.m * c.n * c.k), [=](Bench& bench) {
                   auto held = hold(
                       c.transpose_a ? bench.make(type, {c.k, c.m}) : bench.make(type, {c.m, c.k}),
                       c.transpose_b ? bench.make(type, {c.n, c.k}) : bench.make(type, {c.k, c.n}),
                       bench.make(type, {c.m, c.n}));
                   engine::Matmul product;
                   product.a = std::get<0>(*held);
                   product.b = std::get<1>(*held);
                   product.c = std::get<2>(*held);
                   product.transpose_a = c.transpose_a;
                   product.transpose_b = c.transpose_b;
                   return [=, &bench] {
                     benchmark::DoNotOptimize(held);
                     bench.device->matmul(product);
                   };
                 });
}

}  // namespace

int main(int argc, char** argv) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const std::string suffix(kernels::name_of(type));
    const double matrix = static_cast<double>(kRows * kCols * kernels::bytes_of(type));
    register_norms(type, suffix, matrix);
    register_elementwise(type, suffix, matrix);
    register_losses_and_adam(type, suffix, matrix);
    if (!engine::make_cpu_device(1)->multiplies(type)) continue;
    register_attention(type, suffix);
    register_products(type, suffix);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
