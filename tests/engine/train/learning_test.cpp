// A small GPT learns English, and the same under every kind of parallelism.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "engine/comm/local_communicator.h"
#include "engine/data/tokenizer.h"
#include "engine/train/trainer.h"
#include "tests/support/english_text.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

constexpr int64_t kSteps = 200;
constexpr size_t kCompared = 20;

Job small_job() {
  Job job;
  job.model.name = "a small GPT";
  job.model.layers = 2;
  job.model.hidden = 64;
  job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 32;
  job.model.ffn_hidden = 256;
  job.model.vocab = ByteTokenizer().vocab();
  job.model.positions = 64;
  job.model.dropout = false;
  job.workload.seq = 64;
  job.workload.precision = Precision::f32;
  job.workload.gbs = job.plan.gbs = 16;
  job.plan.mbs = 4;
  job.steps = kSteps;
  job.optimizer.learning_rate = 6e-3;
  job.optimizer.minimum_rate = 1e-3;
  job.optimizer.warmup_steps = 5;
  return job;
}

std::vector<double> curve(const Job& job, const Batches& batches, size_t steps) {
  std::vector<double> losses;
  run_local(job.plan.world(), [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    World world(ranks, Grid(job.plan));
    Trainer trainer(*device, world, job, batches);
    for (size_t step = 0; step < steps; ++step) {
      const double loss = trainer.step().loss;
      if (ranks.rank() == 0) losses.push_back(loss);
    }
  });
  return losses;
}

TEST(Learning, EnglishUnderEveryKindOfParallelism) {
  const auto files = english::files_in("/usr/share/common-licenses");
  if (files.empty()) GTEST_SKIP() << "no English text in /usr/share/common-licenses";
  const TemporaryFolder folder;
  Job job = small_job();
  const TextBatches text = english::batches_of(files, folder / "text", job.workload.seq);
  const double unigram = english::unigram_entropy(text.dataset());

  const std::vector<double> serial = curve(job, text, kSteps);
  EXPECT_NEAR(serial.front(), std::log(257.0), 0.2);
  const double last = (serial[kSteps - 1] + serial[kSteps - 2] + serial[kSteps - 3]) / 3;
  EXPECT_LT(last, unigram - 0.25);
  std::cout << "loss " << serial.front() << " to " << last << ", unigram entropy " << unigram
            << '\n';

  ParallelPlan tensor = job.plan, pipeline = job.plan, data = job.plan, selective = job.plan;
  tensor.tp = pipeline.pp = data.dp = selective.tp = 2;
  selective.sp = true;
  selective.recompute = {Recompute::Mode::selective, 0};
  for (const ParallelPlan& plan : {tensor, pipeline, data, selective}) {
    SCOPED_TRACE(describe(plan));
    job.plan = plan;
    job.workload.attention =
        plan == selective ? AttentionKind::unfused : AttentionKind::flash;  // it has a core to drop
    const std::vector<double> losses = curve(job, text, kCompared);
    for (size_t i = 0; i < kCompared; ++i) ASSERT_NEAR(losses[i], serial[i], 1e-3) << "step " << i;
  }
}

}  // namespace
}  // namespace engine
