// Generation and the tuning of prompts through the CUDA device's code: the text of the CPU, token
// for token, and its virtual tokens.
#include <gtest/gtest.h>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/local_communicator.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/train/trainer.h"
#include "engine/train/training_checkpoint.h"
#include "engine/tune/prompt_tuner.h"
#include "tests/support/cuda/stand_in.h"
#include "tests/support/generation_run.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

void run_on_cpu(int size, const std::function<void(Device&, Communicator&)>& body) {
  run_local(size, [&](Communicator& ranks) {
    const auto device = make_cpu_device(1);
    body(*device, ranks);
  });
}

// A rank alone, as the worker runs it, with device memory closed to the host: whoever touches it
// without the device dies.
void run_closed(int, const std::function<void(Device&, Communicator&)>& body) {
  cuda_stand_in::close_memory(true);
  {
    CudaDevice device(0);
    PhantomCommunicator alone(0, 1, 1, ordered_gpu_memory(device));
    body(device, alone);
  }
  cuda_stand_in::close_memory(false);
}

std::vector<ModelSpec> models() {
  ModelSpec gpt = tiny::gpt();
  gpt.positions = 64;
  return {gpt, tiny::llama()};
}

void expect_equal_runs(const GenerationRun& run, const GenerationRun& wanted) {
  EXPECT_EQ(run.tokens, wanted.tokens);
  EXPECT_EQ(run.finishes, wanted.finishes);
  ASSERT_EQ(run.scores.size(), wanted.scores.size());
  for (const auto& [request, choices] : wanted.scores)
    for (size_t i = 0; i < choices.size(); ++i)
      EXPECT_NEAR(run.scores.at(request).at(i).loss, choices[i].loss, 1e-5);
}

TEST(CudaGeneration, GivesTheTextOfTheCpu) {
  for (const ModelSpec& model : models()) {
    const auto requests = test_requests(model, 5, 14, 10);
    for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 2}, {4, 1}}) {
      GeneratorOptions options = test_generation(model);
      options.plan.tp = tp;
      options.plan.pp = pp;
      const GenerationRun wanted = generate_on(run_on_cpu, options, requests);
      ASSERT_EQ(wanted.tokens.size(), requests.size());
      expect_equal_runs(generate(options, requests), wanted);
    }
  }
}

TEST(CudaGeneration, LeavesDeviceMemoryToTheDevice) {
  for (const ModelSpec& model : models()) {
    const GeneratorOptions options = test_generation(model);
    auto requests = test_requests(model, 4, 9, 6);
    requests[0].targets = requests[0].prompt;  // scored: the loss of every token
    // Prompts begin with virtual tokens.
    const std::vector<float> rows(static_cast<size_t>(3 * model.hidden), 0.25F);
    requests[2].prompt.insert(requests[2].prompt.begin(), {-1, -3});
    const GenerationRun wanted = generate_on(run_on_cpu, options, requests, {}, rows);
    expect_equal_runs(generate_on(run_closed, options, requests, {}, rows), wanted);
  }
}

TEST(CudaGeneration, LoadsCheckpoints) {
  const TemporaryFolder folder;
  ParallelPlan plan;
  plan.gbs = 8;
  const Job job = test_job(models()[0], plan);
  run_on_cpu(1, [&](Device& device, Communicator& ranks) {
    World world(ranks, Grid(plan));
    SyntheticBatches batches(job.model.vocab, 1);
    Trainer trainer(device, world, job, batches);
    trainer.step();
    save_checkpoint(trainer, folder.path());
  });
  GeneratorOptions options = test_generation(job.model);
  const auto requests = test_requests(job.model, 3, 9, 8);
  const auto untrained = generate_on(run_on_cpu, options, requests).tokens;
  options.checkpoint = folder.path();
  const GenerationRun wanted = generate_on(run_on_cpu, options, requests);
  EXPECT_NE(wanted.tokens, untrained);
  expect_equal_runs(generate_on(run_closed, options, requests), wanted);
}

// The loss of every step, and the first task's virtual tokens behind it.
std::vector<std::vector<double>> tune_on(const RunRanks& run_ranks, const Job& job) {
  std::vector<std::vector<double>> told;
  run_ranks(job.plan.world(), [&](Device& device, Communicator& ranks) {
    World world(ranks, Grid(job.plan));
    std::vector<TuningExample> examples(4);
    for (int32_t i = 0; i < 4; ++i) {
      examples[static_cast<size_t>(i)].tokens = {i, 7, 2 * i, 5};
      examples[static_cast<size_t>(i)].answer_tokens = 1 + i % 2;
    }
    PromptTuner tuner(device, world, job, examples);
    for (int64_t step = 0; step < job.steps; ++step) {
      const double loss = tuner.step().loss;
      if (world.rank() != 0) continue;
      told.push_back({loss});
      for (const float x : tuner.prompt(0).rows) told.back().push_back(x);
    }
  });
  return told;
}

TEST(CudaTuning, FindsTheVirtualTokensOfTheCpu) {
  ParallelPlan plan;
  plan.gbs = 4;
  plan.mbs = 2;
  Job job = test_job(tiny::llama(), plan);
  job.workload.attention = AttentionKind::flash;
  job.workload.seq = 8;
  job.tuning.emplace().virtual_tokens = 3;
  job.tuning->tasks.push_back({"task", "", ""});
  const auto wanted = tune_on(run_on_cpu, job);
  ASSERT_EQ(wanted.size(), 3u);
  EXPECT_NE(wanted[0], wanted[2]);
  const auto expect_near = [&](const std::vector<std::vector<double>>& told) {
    ASSERT_EQ(told.size(), wanted.size());
    for (size_t step = 0; step < told.size(); ++step) {
      ASSERT_EQ(told[step].size(), wanted[step].size());
      for (size_t i = 0; i < told[step].size(); ++i)
        EXPECT_NEAR(told[step][i], wanted[step][i], 1e-4) << step << " " << i;
    }
  };
  expect_near(tune_on(run_closed, job));
  job.plan.tp = job.plan.pp = 2;
  expect_near(tune_on(test_ranks::run, job));
}

}  // namespace
}  // namespace engine
