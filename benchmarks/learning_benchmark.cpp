// A small GPT learns English text under several plans: the loss it reaches beside the entropy of
// single bytes, and how far the curve is from one rank's. The text is Debian's package fortunes.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "engine/comm/local_communicator.h"
#include "engine/train/trainer.h"
#include "tests/support/english_text.h"

namespace engine {
namespace {

constexpr int64_t kSteps = 250;

Job small_job(const ParallelPlan& plan) {
  Job job;
  job.model.layers = 4;
  job.model.hidden = 128;
  job.model.heads = job.model.kv_heads = 4;
  job.model.head_dim = 32;
  job.model.ffn_hidden = 512;
  job.model.vocab = ByteTokenizer().vocab();
  job.model.positions = 128;
  job.model.dropout = false;
  job.workload.seq = 128;
  job.workload.gbs = 16;
  job.workload.precision = Precision::f32;
  job.workload.attention = AttentionKind::unfused;
  job.plan = plan;
  job.plan.gbs = 16;
  job.plan.mbs = 8;
  job.steps = kSteps;
  job.optimizer.learning_rate = 4e-3;
  job.optimizer.minimum_rate = 4e-4;
  job.optimizer.warmup_steps = 10;
  return job;
}

std::vector<double> curve(const Job& job, const Batches& batches) {
  std::vector<double> losses;
  const int world = job.plan.world();
  run_local(world, [&](Communicator& ranks) {
    const auto device = make_cpu_device(std::max(1, 2 / world));
    World grid(ranks, Grid(job.plan));
    Trainer trainer(*device, grid, job, batches);
    for (int64_t step = 0; step < job.steps; ++step) {
      const double loss = trainer.step().loss;
      if (ranks.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

// The mean of the last steps.
double end_of(const std::vector<double>& losses) {
  constexpr int kLast = 20;
  double sum = 0;
  for (size_t i = losses.size() - kLast; i < losses.size(); ++i) sum += losses[i];
  return sum / kLast;
}

void learning(benchmark::State& state, const ParallelPlan& plan) {
  static std::vector<double> serial;  // of the first case
  const auto files = english::files_in("/usr/share/games/fortunes");
  if (files.empty()) return state.SkipWithError("install the package fortunes");
  const std::string prefix = std::filesystem::temp_directory_path() / "autotune_learning";
  const Job job = small_job(plan);
  const TextBatches text = english::batches_of(files, prefix, job.workload.seq);
  std::vector<double> losses;
  for (auto _ : state) losses = curve(job, text);
  if (plan.world() == 1) serial = losses;
  state.counters["first_loss"] = losses.front();
  state.counters["loss"] = end_of(losses);
  state.counters["unigram_entropy"] = english::unigram_entropy(text.dataset());
  if (!serial.empty()) {
    state.counters["serial_loss"] = end_of(serial);
    double apart = 0;
    for (size_t i = 0; i < losses.size(); ++i)
      apart = std::max(apart, std::abs(losses[i] - serial[i]));
    state.counters["curves_apart"] = apart;
  }
  for (const char* end : {".bin", ".idx"}) std::filesystem::remove(prefix + end);
}

#define LEARNING(name, ...)                                   \
  BENCHMARK_CAPTURE(learning, name, ParallelPlan __VA_ARGS__) \
      ->Unit(benchmark::kSecond)                              \
      ->UseRealTime()                                         \
      ->Iterations(1)
LEARNING(one_rank, {});
LEARNING(tp_2, {.tp = 2});
LEARNING(pp_2, {.pp = 2});
LEARNING(dp_2, {.dp = 2});
LEARNING(tp_2_sp_selective, {.tp = 2, .sp = true, .recompute = {Recompute::Mode::selective, 0}});

}  // namespace
}  // namespace engine

BENCHMARK_MAIN();
