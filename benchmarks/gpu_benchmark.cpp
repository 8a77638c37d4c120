// What a GPU gives: products and copies as ceilings, memory-bound kernels against them, training
// steps, single ranks of large plans, and decoding. Prints a line of JSON for each figure;
// tests/gpu/run puts them into a table.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/infer/generator.h"
#include "engine/plan/model_spec.h"
#include "engine/train/trainer.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/presets.h"

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

// Bytes a second that a copy reads and writes.
double copy_bandwidth(CudaDevice& device) {
  constexpr int64_t kBytes = int64_t{1} << 28;
  const Buffer from(device, kBytes, MemoryUse::workspace), to(device, kBytes, MemoryUse::workspace);
  return 2.0 * kBytes / seconds_of(device, [&] { device.copy(to.data(), from.data(), kBytes); });
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
  const double copied = copy_bandwidth(device);
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
  const kernels::AdamPiece all{gradient, master, first, second, weights, 0.1};
  against_copy("Adam", (7 * 4 + 2) / 4.0, [&] { k.adam({&all, 1}, step); });
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

// One rank of a plan, trained.
class Rank {
 public:
  explicit Rank(const Job& job, int rank = 0)
      : ranks_(rank, job.plan.world(), 1, ordered_gpu_memory(device_)),
        axes_(ranks_, Grid(job.plan)),
        batches_(job.model.vocab, 1),
        trainer_(device_, axes_, job, batches_) {}

  const Meter& meter() { return device_.meter(); }
  double step_seconds() {
    return median_seconds([&] { trainer_.step(); });
  }
  double forward_seconds() {
    return median_seconds([&] { trainer_.evaluate(batches_, 1); });
  }

 private:
  // By the host's clock, of five calls behind three.
  double median_seconds(const std::function<void()>& call) {
    std::vector<double> seconds;
    for (int i = 0; i < 8; ++i) {
      device_.synchronize();
      const auto start = std::chrono::steady_clock::now();
      call();
      device_.synchronize();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (i >= 3) seconds.push_back(passed.count());
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  CudaDevice device_{0};
  PhantomCommunicator ranks_;
  World axes_;
  SyntheticBatches batches_;
  Trainer trainer_;
};

double gib(double bytes) { return bytes / static_cast<double>(1 << 30); }

void measure_training() {
  const Job job = gpt_job(8, 4);
  Rank rank(job);
  const double seconds = rank.step_seconds();
  tell("GPT 4096 x 8, seq 2048, mbs 4: step", 1e3 * seconds, "ms");
  tell("GPT 4096 x 8: model FLOP/s (causal half)", model_flops(job) / seconds / kTera, "TFLOP/s");
  tell("GPT 4096 x 8: peak memory", gib(static_cast<double>(rank.meter().peak())), "GiB");
  const auto activations = static_cast<double>(rank.meter().peak(MemoryUse::activation));
  tell("GPT 4096 x 8: activations", gib(activations), "GiB");
  tuner::Scenario scenario;
  scenario.model = job.model;
  scenario.stack = tuner::find_stack("autotune");
  scenario.workload = job.workload;
  const MemoryOutcome memory = tuner::MemoryModel(scenario).evaluate(job.plan);
  tell("GPT 4096 x 8: activations less the model's",
       activations - memory.stages.at(0)[MemoryUse::activation], "B");
}

// One rank of eight tensor-parallel ones, with layers of this size.
Job phantom_job(int64_t layers, int64_t hidden, int64_t heads, int64_t mbs) {
  Job job = gpt_job(layers, mbs);
  job.model.hidden = hidden;
  job.model.heads = job.model.kv_heads = heads;
  job.model.head_dim = hidden / heads;
  job.model.ffn_hidden = 4 * hidden;
  job.model.vocab = 51200;
  job.plan.tp = 8;
  job.plan.sp = true;
  job.phantom_rank = 0;
  return job;
}

struct LayerTimes {
  double forward, backward;
};
// Of one layer and micro-batch: two depths differ by layers, two batches by passes without updates.
LayerTimes layer_times(int64_t hidden, int64_t heads, int64_t mbs) {
  constexpr int64_t kShallow = 2, kDeep = 5, kMore = 3;
  const auto forward_and_both = [&](int64_t layers) {
    Job job = phantom_job(layers, hidden, heads, mbs);
    double forward = 0, step = 0;
    {
      Rank rank(job);
      forward = rank.forward_seconds();
      step = rank.step_seconds();
    }
    job.plan.gbs = job.workload.gbs = kMore * mbs;
    return std::pair(forward, (Rank(job).step_seconds() - step) / (kMore - 1));
  };
  const auto [shallow_forward, shallow_both] = forward_and_both(kShallow);
  const auto [deep_forward, deep_both] = forward_and_both(kDeep);
  const double forward = (deep_forward - shallow_forward) / (kDeep - kShallow);
  return {forward, (deep_both - shallow_both) / (kDeep - kShallow) - forward};
}

// Single ranks of tp 8 with sequence parallelism and fused attention, nothing recomputed and no
// communication, beside what was published with both and unfused attention.
void measure_phantom_layers() {
  const LayerTimes small = layer_times(6144, 64, 4);
  tell("GPT 22B, a phantom rank of tp 8, mbs 4: layer forward", 1e3 * small.forward, "ms");
  tell("GPT 22B: layer backward", 1e3 * small.backward, "ms");
  // Korthikanti et al. 2022, table 4, sequence parallelism.
  tell("GPT 22B: layer forward on A100, published", 7.2, "ms");
  tell("GPT 22B: layer backward on A100, published", 11.8, "ms");
  const LayerTimes large = layer_times(12288, 96, 1);
  tell("GPT-3 175B, a phantom rank of tp 8, mbs 1: layer forward", 1e3 * large.forward, "ms");
  tell("GPT-3 175B: layer backward", 1e3 * large.backward, "ms");
  // 64 GPUs, global batch 64: 12 layers a stage, a bubble of (pp - 1) / vpp micro-batches.
  tell("GPT-3 175B, tp 8 pp 8 vpp 3, gbs 64: step of these layers",
       12 * (large.forward + large.backward) * (64 + 7.0 / 3), "s");
}

// How much faster SP + selective recomputation is than full recomputation, against what the
// products that each computes allow.
void measure_recomputation() {
  const auto measure = [](bool sp, Recompute recompute) {
    Job job = phantom_job(4, 12288, 96, 1);
    job.plan.sp = sp;
    job.plan.recompute = recompute;
    job.plan.gbs = job.workload.gbs = 8;
    job.workload.attention = AttentionKind::unfused;
    Rank rank(job);
    const double seconds = rank.step_seconds();
    return std::pair(seconds, rank.meter().matmul_flops());
  };
  const auto [full_seconds, full_flops] = measure(false, {Recompute::Mode::full});
  const auto [selective_seconds, selective_flops] = measure(true, {Recompute::Mode::selective});
  const double gain = full_seconds / selective_seconds;
  tell("SP + selective over full recomputation", gain, "x");
  tell("SP + selective: of the ratio the FLOPs allow", 100 * gain / (full_flops / selective_flops),
       "%");
}

// One sequence, a token after the other, against the time in which the weights and the keys and
// values so far pass by once.
void measure_decoding() {
  constexpr int64_t kPrompt = 1024, kDropped = 16, kTokens = 256;
  GeneratorOptions options;
  options.model = tuner::find_model("llama-3-8b");
  options.precision = Precision::bf16;
  options.longest = kPrompt + kDropped + kTokens;
  CudaDevice device(0);
  PhantomCommunicator alone(0, 1, 1, ordered_gpu_memory(device));
  World world(alone, Grid(options.plan));
  const double bandwidth = copy_bandwidth(device);
  Generator generator(device, world, options);
  Request request;
  for (int32_t i = 0; i < kPrompt; ++i) request.prompt.push_back(i);
  request.most_tokens = kDropped + kTokens;
  generator.scheduler().add(request);
  for (int64_t i = 0; i < kDropped; ++i) generator.step();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kTokens; ++i) generator.step();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const double seconds = passed.count() / kTokens;
  const ModelSpec& model = options.model;
  // Of the embedding one row is read.
  const int64_t weights =
      device.meter().in_use(MemoryUse::parameter) - 2 * model.vocab * model.hidden;
  const int64_t cached = kPrompt + kDropped + kTokens / 2;
  const int64_t keys_and_values = 2 * 2 * model.layers * model.kv_heads * model.head_dim * cached;
  tell("Llama 3 8B, one sequence of 1.2k: a token", 1e3 * seconds, "ms");
  tell("Llama 3 8B, one sequence: of the bandwidth floor",
       100 * static_cast<double>(weights + keys_and_values) / bandwidth / seconds, "%");
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
  if (what == "all" || what == "phantom") measure_phantom_layers();
  if (what == "all" || what == "recomputation") measure_recomputation();
  if (what == "all" || what == "decoding") measure_decoding();
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
