// What the tuner predicts of a step is what the engine counts: bytes by use, products, messages.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/train/trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"
#include "tuner/model/memory_model.h"
#include "tuner/model/step_work.h"

namespace engine {
namespace {

std::string text_of(const std::vector<Traffic>& traffic) {
  std::string text;
  for (const Traffic& one : traffic)
    text += fmt::format("{} {}: {} messages, {} bytes\n", one.axis, one.verb, one.messages,
                        one.payload_bytes);
  return text;
}

tuner::Scenario scenario_of(const Job& job) {
  tuner::Scenario scenario;
  scenario.model = job.model;
  scenario.stack = tuner::find_stack("autotune");
  scenario.workload = job.workload;
  return scenario;
}

void expect_model_equals_meter(const Job& job) {
  const tuner::Scenario scenario = scenario_of(job);
  const MemoryOutcome memory = tuner::MemoryModel(scenario).evaluate(job.plan);
  for (const RankRecord& rank : train(job, 1).ranks) {
    SCOPED_TRACE(fmt::format("stage {}", rank.stage));
    const StageMemory& predicted = memory.stages[static_cast<size_t>(rank.stage)];
    for (const MemoryUse use : {MemoryUse::parameter, MemoryUse::gradient, MemoryUse::optimizer,
                                MemoryUse::activation, MemoryUse::recompute})
      EXPECT_EQ(predicted[use], static_cast<double>(rank.meter.peak(use))) << name_of(use);
    const tuner::StepWork work = tuner::step_work(scenario, job.plan, rank.stage);
    EXPECT_EQ(work.matmul_flops, rank.meter.matmul_flops());
    EXPECT_EQ(text_of(work.traffic), text_of(rank.traffic));
    // Gradients of activations come and go; constants and the library's scratch stay below 32 KiB.
    EXPECT_LE(rank.meter.peak(MemoryUse::workspace),
              2 * predicted[MemoryUse::workspace] + (32 << 10));
  }
}

void expect_everywhere(const ModelSpec& model, AttentionKind attention) {
  for (const ParallelPlan& plan : plan_lattice()) {
    SCOPED_TRACE(describe(plan));
    Job job = test_job(model, plan);
    job.workload.attention = attention;
    // The tuner knows that there is nothing to recompute.
    if (attention == AttentionKind::flash && plan.recompute.mode == Recompute::Mode::selective)
      job.plan.recompute = {};
    expect_model_equals_meter(job);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ModelEqualsMeter, ForUnfusedGpt) { expect_everywhere(tiny::gpt(), AttentionKind::unfused); }
TEST(ModelEqualsMeter, ForFusedGpt) { expect_everywhere(tiny::gpt(), AttentionKind::flash); }
TEST(ModelEqualsMeter, ForFusedLlama) { expect_everywhere(tiny::llama(), AttentionKind::flash); }

TEST(ModelEqualsMeter, ForBf16AndLargerMicroBatches) {
  if (!test_ranks::make_device()->multiplies(DType::bf16))
    GTEST_SKIP() << "this processor does not multiply bf16";
  const std::vector<ParallelPlan> plans = plan_lattice();
  for (size_t i = 0; i < plans.size(); i += 7) {
    Job job = test_job(i % 2 == 0 ? tiny::gpt() : tiny::llama(), plans[i]);
    job.plan.mbs = 2;
    job.workload.precision = Precision::bf16;
    job.workload.attention = AttentionKind::unfused;
    if (!training_problems(job.model, job.plan, job.workload).empty()) continue;
    SCOPED_TRACE(describe(job.plan));
    expect_model_equals_meter(job);
  }
}

}  // namespace
}  // namespace engine
