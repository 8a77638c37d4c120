// The engine's models are GPT-2 and Llama as Hugging Face's checkpoints mean them.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/data/batches.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

double reference_loss(const Job& job, const reference::Weights& weights, int64_t first) {
  const SyntheticBatches batches(job.model.vocab, job.seed);
  std::vector<int32_t> tokens(static_cast<size_t>(job.workload.seq) + 1);
  double sum = 0;
  for (int64_t i = first; i < first + job.plan.gbs; ++i) {
    batches.read(i, tokens);
    sum += reference::loss(job.model, weights, {tokens.begin(), tokens.end() - 1},
                           {tokens.begin() + 1, tokens.end()});
  }
  return sum / static_cast<double>(job.plan.gbs * job.workload.seq);
}

// Before training and after four steps with a high rate, where no weight is small.
TEST(Reference, LossesAreThoseOfPlainLoops) {
  for (ModelSpec model : {tiny::gpt(), tiny::llama()}) {
    model.dropout = false;
    for (const AttentionKind kind : {AttentionKind::unfused, AttentionKind::flash}) {
      ParallelPlan plan;
      plan.gbs = 4;
      plan.tp = 2;
      Job job = test_job(model, plan);
      job.workload.attention = kind;
      job.optimizer.learning_rate = 0.1;
      const TrainingRun run = train(job, 5);
      for (const int64_t step : {0, 4}) {
        const double expected = reference_loss(job, train(job, step).weights, step * job.plan.gbs);
        EXPECT_NEAR(run.losses[static_cast<size_t>(step)], expected, 1e-5 * expected)
            << model.name << ", step " << step;
      }
      EXPECT_GT(std::abs(run.losses[4] - run.losses[0]), 0.01);
    }
  }
}

}  // namespace
}  // namespace engine
