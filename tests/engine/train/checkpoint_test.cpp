// Training goes on from a checkpoint under any plan as if it had never stopped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/train/training_checkpoint.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

struct Leg {
  ParallelPlan plan;
  int64_t until;
};

class Resume : public testing::Test {
 protected:
  void SetUp() override {
    root_ = (fs::temp_directory_path() / ("autotune_resume_" + std::to_string(getpid()))).string();
  }
  void TearDown() override { fs::remove_all(root_); }

  // Losses of all steps; each leg loads what the one before saved.
  std::vector<double> losses(Job job, const std::vector<Leg>& legs) const {
    std::vector<double> all;
    for (size_t i = 0; i < legs.size(); ++i) {
      job.plan = legs[i].plan;
      test_ranks::run(job.plan.world(), [&](Device& device, Communicator& ranks) {
        World world(ranks, Grid(job.plan));
        SyntheticBatches batches(job.model.vocab, job.seed);
        Trainer trainer(device, world, job, batches);
        if (i > 0) load_checkpoint(trainer, root_);
        while (trainer.next_step() < legs[i].until) {
          const double loss = trainer.step().loss;
          if (ranks.rank() == 0) all.push_back(loss);
        }
        save_checkpoint(trainer, root_);
      });
    }
    return all;
  }
  std::string root_;
};

ParallelPlan plan_of(int tp, int pp, int dp, int zero, bool sp = false) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  plan.zero = zero;
  plan.sp = sp;
  plan.gbs = 8;
  return plan;
}

TEST_F(Resume, UnderAnotherPlanGivesTheSerialLosses) {
  for (const ModelSpec& model : {tiny::gpt(), tiny::llama()}) {
    Job job = test_job(model, plan_of(1, 1, 1, 0));
    job.steps = 20;
    const auto serial = losses(job, {{plan_of(1, 1, 1, 0), 20}});
    fs::remove_all(root_);
    const auto resumed = losses(job, {{plan_of(4, 1, 2, 1, true), 4},
                                      {plan_of(1, 4, 2, 0), 8},
                                      {plan_of(2, 1, 2, 3), 12},
                                      {plan_of(2, 2, 2, 1, true), 20}});
    ASSERT_EQ(resumed.size(), serial.size());
    for (size_t step = 0; step < serial.size(); ++step)
      EXPECT_NEAR(resumed[step], serial[step], 2e-5 * serial[step]) << "step " << step;
    fs::remove_all(root_);
  }
}

TEST_F(Resume, UnderTheSamePlanGivesTheSameBits) {
  std::vector<Precision> precisions = {Precision::f32};
  if (test_ranks::make_device()->multiplies(DType::bf16)) precisions.push_back(Precision::bf16);
  for (const Precision precision : precisions) {
    const ParallelPlan plan = plan_of(2, 2, 2, 1, true);
    Job job = test_job(tiny::gpt(), plan);
    job.steps = 6;
    job.workload.precision = precision;
    const auto whole = losses(job, {{plan, 6}});
    fs::remove_all(root_);
    EXPECT_EQ(losses(job, {{plan, 3}, {plan, 6}}), whole);
    fs::remove_all(root_);
  }
}

}  // namespace
}  // namespace engine
