// What a GPU gives: products and copies as ceilings, memory-bound kernels against them, and
// training steps. Prints a line of JSON for each figure; tests/gpu/run puts them into a table.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/plan/model_spec.h"
#include "engine/train/trainer.h"

namespace engine {
namespace {

constexpr double kTera = 1e12;

void tell(const std::string& name, double value, const std::string& unit) {
  fmt::print("{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"}}\n", name, value, unit);
  std::fflush(stdout);
}

// Seconds of one call among many, by the device's own clock; the best of five turns.
double seconds_of(CudaDevice& device, const std::function<void()>& call, int calls = 20) {
  const auto clock = device.make_clock();
  double best = 1e30;
  for (int turn = 0; turn < 6; ++turn) {
    clock->mark();
    for (int i = 0; i < calls; ++i) call();
    clock->mark();
    device.synchronize();
    const double seconds = clock->read().front() / calls;
    if (turn > 0) best = std::min(best, seconds);
  }
  return best;
}

Tensor filled(CudaDevice& device, int64_t rows, int64_t cols, DType type) {
  Tensor tensor(device, {rows, cols}, type, MemoryUse::workspace);
  device.kernels().fill_normal(tensor, 1, kernels::make_stream(1, kernels::Purpose::data, 0, 0), {},
                               0);
  return tensor;
}

void measure_products(CudaDevice& device) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{8192, 8192, 8192}, {8192, 16384, 4096}}) {
    const Tensor a = filled(device, m, k, DType::bf16), b = filled(device, n, k, DType::bf16);
    Tensor c(device, {m, n}, DType::bf16, MemoryUse::workspace);
    Matmul product;
    product.a = a;
    product.b = b;
    product.transpose_b = true;
    product.c = c;
    const double seconds = seconds_of(
        device, [&] { device.matmul(product); }, 10);
    tell(fmt::format("matmul {}x{}x{} bf16", m, n, k),
         2.0 * static_cast<double>(m * n * k) / seconds / kTera, "TFLOP/s");
  }
}

// Bytes a second of a kernel that reads and writes `tensors` matrices, against a copy.
void measure_kernels(CudaDevice& device) {
  constexpr int64_t kRows = 16384, kCols = 4096;
  const DType type = DType::bf16;
  const Tensor x = filled(device, kRows, kCols, type), y = filled(device, kRows, kCols, type);
  Tensor out = filled(device, kRows, kCols, type);
  const Tensor gain = filled(device, 1, kCols, type), bias = filled(device, 1, kCols, type);
  Tensor mean(device, {1, kRows}, DType::f32, MemoryUse::workspace);
  Tensor rstd(device, {1, kRows}, DType::f32, MemoryUse::workspace);
  Tensor column(device, {1, kCols}, DType::f32, MemoryUse::workspace);
  kernels::Kernels& k = device.kernels();
  k.fill(column, 0);
  const auto bytes = static_cast<double>(x.bytes());
  const double copied =
      2 * bytes / seconds_of(device, [&] { device.copy(out.data(), x.data(), x.bytes()); });
  tell("copy", copied / kTera, "TB/s");
  const auto against_copy = [&](const char* name, double tensors, const auto& call) {
    tell(fmt::format("{} of copy", name), 100 * tensors * bytes / seconds_of(device, call) / copied,
         "%");
  };
  const kernels::Activation gelu = kernels::Activation::gelu_tanh;
  against_copy("norm forward", 2, [&] { k.norm_forward(x, gain, bias, out, mean, rstd, 1e-5); });
  against_copy("norm backward", 4, [&] { k.norm_backward(y, x, gain, mean, rstd, y, out); });
  against_copy("norm gradients", 2,
               [&] { k.norm_parameter_gradients(y, x, mean, rstd, column, column); });
  against_copy("bias + GeLU", 2, [&] { k.bias_activation_forward(x, bias, out, gelu); });
  against_copy("bias + GeLU backward", 3,
               [&] { k.bias_activation_backward(y, x, bias, out, gelu); });
  kernels::Dropout dropout;
  dropout.probability = 0.1F;
  against_copy("bias + dropout + residual", 3,
               [&] { k.bias_dropout_add(x, bias, y, out, dropout); });
  against_copy("column sum", 1, [&] { k.column_sum(x, column); });
  against_copy("accumulate", 3, [&] { k.accumulate(x, out); });
  Tensor master = filled(device, 1, kRows * kCols / 2, DType::f32);
  Tensor first = filled(device, 1, kRows * kCols / 2, DType::f32);
  Tensor second(device, first.shape(), DType::f32, MemoryUse::workspace);
  Tensor gradient = filled(device, 1, kRows * kCols / 2, DType::f32);
  k.fill(second, 1);
  kernels::AdamStep step;
  step.step = 1;
  const View weights(out.data(), type, 1, kRows * kCols / 2);
  // Four reads and three writes of f32, one write of bf16, of half as many elements.
  against_copy("Adam", (7 * 4 + 2) / 4.0,
               [&] { k.adam(gradient, master, first, second, weights, step); });
}

Job gpt_job(int64_t layers, int64_t mbs) {
  Job job;
  ModelSpec& model = job.model;
  model.name = "gpt";
  model.layers = layers;
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.head_dim = 128;
  model.ffn_hidden = 4 * model.hidden;
  model.vocab = 50304;
  model.positions = 2048;
  model.dropout = false;
  job.plan.mbs = mbs;
  job.plan.gbs = mbs;
  job.workload.seq = 2048;
  job.workload.gbs = mbs;
  job.workload.precision = Precision::bf16;
  job.workload.attention = AttentionKind::flash;
  job.steps = 100;
  return job;
}

// Model FLOPs of a step with the causal half of the attention square.
double model_flops(const Job& job) {
  const auto tokens = static_cast<double>(job.plan.gbs * job.workload.seq);
  const double square = 4.0 * static_cast<double>(job.model.layers * job.workload.seq) *
                        static_cast<double>(job.model.heads * job.model.head_dim);
  return 3 * tokens *
         (forward_flops_per_token(job.model, job.workload.seq, job.model.vocab) - square / 2);
}

struct Step {
  double seconds = 0;
  int64_t peak_bytes = 0, activation_bytes = 0;
};
Step measure_step(const Job& job, int rank = 0, int world = 1) {
  CudaDevice device(0);
  PhantomCommunicator ranks(rank, world, 1, ordered_gpu_memory(device));
  World axes(ranks, Grid(job.plan));
  SyntheticBatches batches(job.model.vocab, 1);
  Trainer trainer(device, axes, job, batches);
  std::vector<double> seconds;
  for (int i = 0; i < 8; ++i) {
    const auto start = std::chrono::steady_clock::now();
    trainer.step();
    device.synchronize();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (i >= 3) seconds.push_back(passed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], device.meter().peak(),
          device.meter().peak(MemoryUse::activation)};
}

void measure_training() {
  const Job job = gpt_job(8, 4);
  const Step step = measure_step(job);
  tell("GPT 4096 x 8, seq 2048, mbs 4: step", 1e3 * step.seconds, "ms");
  tell("GPT 4096 x 8: model FLOP/s (causal half)", model_flops(job) / step.seconds / kTera,
       "TFLOP/s");
  tell("GPT 4096 x 8: peak memory", static_cast<double>(step.peak_bytes) / (1 << 30), "GiB");
  tell("GPT 4096 x 8: activations", static_cast<double>(step.activation_bytes) / (1 << 30), "GiB");
}

// One rank of GPT-3 175B at tp 8: time of a layer, from two depths.
void measure_phantom_layer() {
  const auto step_of = [](int64_t layers) {
    Job job = gpt_job(layers, 1);
    job.model.hidden = 12288;
    job.model.heads = job.model.kv_heads = 96;
    job.model.ffn_hidden = 4 * job.model.hidden;
    job.model.vocab = 51200;
    job.plan.tp = 8;
    job.plan.sp = true;
    job.phantom_rank = 0;
    return measure_step(job, 0, 8).seconds;
  };
  const double two = step_of(2), six = step_of(6);
  tell("GPT-3 175B tp 8 sp, a phantom rank: one layer and its update", 1e3 * (six - two) / 4, "ms");
}

int run(const std::string& what) {
  {
    CudaDevice device(0);
    fmt::print("{{\"device\": \"{}\"}}\n", device.description());
    if (what == "all" || what == "kernels") {
      measure_products(device);
      measure_kernels(device);
    }
  }
  if (what == "all" || what == "training") measure_training();
  if (what == "all" || what == "phantom") measure_phantom_layer();
  return 0;
}

}  // namespace
}  // namespace engine

int main(int count, char** arguments) {
  try {
    return engine::run(count > 1 ? arguments[1] : "all");
  } catch (const engine::Error& error) {
    fmt::print(stderr, "gpu_benchmark: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
