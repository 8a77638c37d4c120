// One training step of a GPT model against its floor: the time of its matrix products alone.
//
// `floor` is the part of a step's time spent in matrix products; `over_floor` the whole step over
// it. The shape is 8 layers, hidden 512, 8 heads, sequence 512, vocabulary 32,000, micro-batch 4.
#include <benchmark/benchmark.h>

#include <sys/resource.h>

#include <chrono>
#include <ctime>

#include "engine/comm/local_communicator.h"
#include "engine/train/trainer.h"

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

// Another device, with a clock on its products.
class ClockedDevice final : public Device {
 public:
  explicit ClockedDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}
  double product_seconds = 0;

  void copy_to_device(void* dst, const void* src, int64_t bytes) override {
    inner_->copy_to_device(dst, src, bytes);
  }
  void copy_to_host(void* dst, const void* src, int64_t bytes) override {
    inner_->copy_to_host(dst, src, bytes);
  }
  void copy(void* dst, const void* src, int64_t bytes) override { inner_->copy(dst, src, bytes); }
  kernels::Kernels& kernels() override { return inner_->kernels(); }
  void synchronize() override { inner_->synchronize(); }
  bool multiplies(DType type) const override { return inner_->multiplies(type); }
  std::string description() const override { return inner_->description(); }

 private:
  void* take(int64_t bytes) override { return inner_->allocate(bytes, MemoryUse::workspace); }
  void give_back(void* data, int64_t bytes) noexcept override {
    inner_->release(data, bytes, MemoryUse::workspace);
  }
  void multiply(const Matmul& product) override {
    const auto start = Clock::now();
    inner_->matmul(product);
    product_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::unique_ptr<Device> inner_;
};

Job job_of(Precision precision, AttentionKind attention) {
  Job job;
  job.model.layers = 8;
  job.model.hidden = 512;
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 64;
  job.model.ffn_hidden = 2048;
  job.model.vocab = 32000;
  job.model.positions = 512;
  job.model.dropout = false;
  job.workload.seq = 512;
  job.workload.gbs = job.plan.gbs = job.plan.mbs = 4;
  job.workload.precision = precision;
  job.workload.attention = attention;
  return job;
}

void training_step(benchmark::State& state, Precision precision, AttentionKind attention) {
  const Job job = job_of(precision, attention);
  run_local(1, [&](Communicator& ranks) {
    ClockedDevice device(make_cpu_device(2));
    if (precision == Precision::bf16 && !device.multiplies(DType::bf16))
      return state.SkipWithError("this processor does not multiply bf16");
    World world(ranks, Grid(job.plan));
    SyntheticBatches batches(job.model.vocab, 1);
    Trainer trainer(device, world, job, batches);
    trainer.step();
    device.product_seconds = 0;
    double seconds = 0, best = 1e30, best_cpu = 1e30;
    for (auto _ : state) {
      const auto start = Clock::now();
      const std::clock_t used = std::clock();
      trainer.step();
      const double step = std::chrono::duration<double>(Clock::now() - start).count();
      best_cpu = std::min(best_cpu, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
      best = std::min(best, step);
      seconds += step;
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto steps = static_cast<double>(state.iterations());
    state.counters["floor_seconds"] = device.product_seconds / steps;
    state.counters["best_seconds"] = best;
    state.counters["best_cpu_seconds"] = best_cpu;
    state.counters["process_peak_GiB"] = static_cast<double>(usage.ru_maxrss) / (1 << 20);
    state.counters["over_floor"] = seconds / device.product_seconds;
    state.counters["peak_GiB"] = static_cast<double>(device.meter().peak()) / (1 << 30);
  });
}

// Seconds and products of a step after the first one, on rank 0.
struct Cost {
  double seconds = 1e30,
         cpu_seconds = 1e30;  // the latter of all ranks, from step to step of rank 0
  double flops = 0;
  int64_t activation_bytes = 0;
};
void measure(const Job& job, Cost& cost) {
  run_local(job.plan.world(), [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    World world(ranks, Grid(job.plan));
    SyntheticBatches batches(job.model.vocab, 1);
    Trainer trainer(*device, world, job, batches);
    trainer.step();
    for (int step = 0; step < 2; ++step) {
      device->meter().restart();
      const auto start = Clock::now();
      const std::clock_t used = std::clock();
      trainer.step();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (ranks.rank() > 0) continue;
      cost.cpu_seconds =
          std::min(cost.cpu_seconds, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
      cost.seconds = std::min(cost.seconds, seconds);
      cost.flops = device->meter().matmul_flops();
      cost.activation_bytes = device->meter().peak(MemoryUse::activation);
    }
  });
}

// Turns of both, one after the other, so that a busy machine slows both; the best of each counts.
void recomputation(benchmark::State& state, int64_t hidden, int64_t vocab) {
  Job full = job_of(Precision::f32, AttentionKind::unfused);
  full.model.hidden = hidden;
  full.model.heads = full.model.kv_heads = hidden / 64;
  full.model.ffn_hidden = 4 * hidden;
  full.model.vocab = vocab;
  full.model.dropout = true;
  full.plan.tp = 2;
  full.plan.recompute = {Recompute::Mode::full, 0};
  Job selective = full;
  selective.plan.sp = true;
  selective.plan.recompute = {Recompute::Mode::selective, 0};
  Cost full_cost, selective_cost;
  for (auto _ : state) {
    measure(full, full_cost);
    measure(selective, selective_cost);
  }
  const double speedup = full_cost.seconds / selective_cost.seconds;
  const double bound = full_cost.flops / selective_cost.flops;
  state.counters["full_seconds"] = full_cost.seconds;
  state.counters["speedup"] = speedup;
  state.counters["speedup_of_cpu_time"] = full_cost.cpu_seconds / selective_cost.cpu_seconds;
  state.counters["flops_ratio"] = bound;
  state.counters["of_bound"] = speedup / bound;
}

BENCHMARK_CAPTURE(training_step, f32_fused, Precision::f32, AttentionKind::flash)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(4);
BENCHMARK_CAPTURE(training_step, f32_unfused, Precision::f32, AttentionKind::unfused)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(4);
BENCHMARK_CAPTURE(training_step, bf16_fused, Precision::bf16, AttentionKind::flash)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(4);
BENCHMARK_CAPTURE(training_step, bf16_unfused, Precision::bf16, AttentionKind::unfused)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(4);
BENCHMARK_CAPTURE(recomputation, hidden_512, 512, 32000)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(2);
BENCHMARK_CAPTURE(recomputation, hidden_1024, 1024, 4096)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(2);

}  // namespace
}  // namespace engine

BENCHMARK_MAIN();
