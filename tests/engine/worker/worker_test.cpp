// Jobs through the worker: outcomes, events, exit codes; in this process, and under mpirun.
#include "engine/worker/worker.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/data/tokenize.h"
#include "tests/engine/worker/worker_fixture.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Worker : public WorkerFixture {
 protected:
  Worker() {
    job_.model = tiny::gpt();
    job_.plan.gbs = 8;
    job_.plan.tp = job_.plan.pp = 2;
    job_.plan.sp = true;
    job_.workload.seq = 16;
    job_.workload.gbs = 8;
    job_.steps = 4;
  }
};

TEST_F(Worker, TrainsAndTellsWhatItCost) {
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome result = outcome();
  EXPECT_EQ(result.status, OutcomeStatus::ok);
  EXPECT_TRUE(result.measured && result.fits);
  EXPECT_EQ(result.samples_seconds.size(), 3u);
  EXPECT_GT(result.step_seconds, 0);
  EXPECT_LE(result.interval_seconds.low, result.step_seconds);
  EXPECT_GE(result.interval_seconds.high, result.step_seconds);
  ASSERT_TRUE(result.loss.has_value());
  EXPECT_NEAR(*result.loss, std::log(100.0), 0.3);
  EXPECT_GT(result.gradient_norm.value_or(0), 0);
  EXPECT_GT(result.matmul_flops_per_rank, 0);
  ASSERT_EQ(result.memory.stages.size(), 2u);
  for (const StageMemory& stage : result.memory.stages) {
    EXPECT_GT(stage[MemoryUse::parameter], 0);
    EXPECT_GT(stage[MemoryUse::activation], 0);
  }
  EXPECT_THAT(read_text_file(job_.outcome_path), HasSubstr("reduce_scatter"));

  const auto lines = events();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines.front()["event"], "start");
  EXPECT_EQ(lines[1]["event"], "step");
  EXPECT_EQ(lines[1]["step"], 0);
  EXPECT_GT(lines[1]["seconds"], 0);
  EXPECT_EQ(lines.back()["event"], "end");
  EXPECT_EQ(lines.back()["status"], "ok");
}

TEST_F(Worker, ReportsAPlanThatDoesNotFit) {
  job_.memory_limit_bytes = 100'000;
  EXPECT_EQ(run(), ExitCode::nothing_fits);
  EXPECT_EQ(outcome().status, OutcomeStatus::out_of_memory);
  EXPECT_THAT(outcome().reason, HasSubstr("use more ranks"));
  EXPECT_EQ(events().back()["status"], "out_of_memory");
}

TEST_F(Worker, ReportsALossThatIsNoNumber) {
  job_.optimizer.learning_rate = 1e3;
  job_.optimizer.minimum_rate = 1e3;
  job_.optimizer.clip_norm = 0;
  job_.model.norm_epsilon = 1e-30;
  job_.steps = 60;
  EXPECT_EQ(run(), ExitCode::partial) << errors_;
  EXPECT_EQ(outcome().status, OutcomeStatus::bad_numbers);
  EXPECT_THAT(outcome().reason, HasSubstr("lower the learning rate"));
}

TEST_F(Worker, RefusesWhatTheEngineCannotTrain) {
  job_.model.qk_norm = true;
  job_.model.parallel_block = true;
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_EQ(outcome().status, OutcomeStatus::rejected);
  EXPECT_THAT(errors_, HasSubstr("norms on queries and keys"));
  EXPECT_THAT(errors_, HasSubstr("attention and MLP in parallel"));
}

TEST_F(Worker, RefusesAnotherNumberOfThreads) {
  EXPECT_EQ(run(3), ExitCode::usage);
  EXPECT_THAT(errors_, HasSubstr("--threads 3 must be the plan's 4 ranks"));
}

TEST_F(Worker, StopsBehindAStepWhenAsked) {
  const std::atomic<bool> stop{true};
  stop_ = &stop;
  EXPECT_EQ(run(), ExitCode::terminated);
  EXPECT_EQ(outcome().status, OutcomeStatus::interrupted);
  EXPECT_EQ(events().size(), 3u);
}

TEST_F(Worker, TellsTheLossOfHeldOutText) {
  TokenizeOptions text;
  text.inputs = {(folder_ / "text").string()};
  std::ofstream(text.inputs.front()) << std::string(2000, '!');
  text.output = (folder_ / "held-out").string();
  tokenize(text);
  job_.model.vocab = 257;
  job_.validation_prefix = text.output;
  job_.validation_interval = 2;
  job_.validation_batches = 1;
  job_.steps = 5;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  std::vector<int64_t> steps;
  for (const Json& line : events())
    if (line["event"] == "validation") {
      steps.push_back(line["step"]);
      EXPECT_GT(line["loss"], 3);  // it is trained on tokens at random
    }
  EXPECT_THAT(steps, testing::ElementsAre(2, 4, 5));
  const double with = *outcome().loss;
  job_.validation_prefix.clear();
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(*outcome().loss, with);
}

TEST_F(Worker, ReadsTheRankOfAProcess) {
  const char* right[] = {"worker", "job.json", "--rank=3", "--rendezvous", "/tmp/id"};
  const WorkerOptions options = parse_worker_arguments(5, right);
  EXPECT_EQ(options.file_rank.rank, 3);
  EXPECT_EQ(options.file_rank.path, "/tmp/id");
  EXPECT_THROW(parse_worker_arguments(3, right), InputError);  // no file to meet at
  const char* wrong[] = {"worker", "job.json", "--rank", "-1"};
  EXPECT_THROW(parse_worker_arguments(4, wrong), InputError);
}

TEST_F(Worker, DescribesItself) {
  std::ostringstream out;
  EXPECT_EQ(describe_worker(out), ExitCode::found);
  const Json facts = Json::parse(out.str());
  EXPECT_EQ(facts["worker"], "autotune-worker");
  EXPECT_EQ(facts["backend"]["kind"], "cpu");
}

TEST_F(Worker, NamesWhatItCannotWrite) {
  job_.outcome_path = "/nowhere/outcome.json";
  EXPECT_EQ(run(), ExitCode::storage);
  EXPECT_THAT(errors_, HasSubstr("/nowhere/outcome.json"));
  std::ostringstream errors;
  EXPECT_EQ(run_worker({"/nowhere/job.json", 0, nullptr, {}}, errors), ExitCode::usage);
}

TEST_F(Worker, GoesOnFromItsCheckpoints) {
  job_.checkpoint_save = (folder_ / "checkpoints").string();
  job_.checkpoint_interval = 3;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome whole = outcome();
  fs::remove_all(folder_ / "checkpoints" / "step-00000004");
  job_.checkpoint_load = job_.checkpoint_save;
  job_.plan.dp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_NEAR(*outcome().loss, *whole.loss, 2e-5 * *whole.loss);
  std::vector<int> steps;
  for (const Json& line : events())
    if (line["event"] == "step") steps.push_back(line["step"]);
  EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2, 3, 3));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints" / "step-00000004" / "model.safetensors"));
}

TEST_F(Worker, RefusesDataAndCheckpointsItCannotRead) {
  job_.data_prefix = (folder_ / "nothing").string();
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_EQ(outcome().status, OutcomeStatus::rejected);
  EXPECT_THAT(errors_, HasSubstr("nothing"));
  job_.data_prefix.clear();
  job_.checkpoint_save = (folder_ / "checkpoints").string();
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const fs::path weights = folder_ / "checkpoints" / "step-00000004" / "model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 100);
  job_.checkpoint_load = job_.checkpoint_save;
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_THAT(errors_, HasSubstr("model.safetensors"));
}

// A phantom rank has the memory, the products and the messages of the real one.
TEST_F(Worker, RunsOneRankOfAPlanAlone) {
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome whole = outcome();
  for (const int64_t rank : {0, 3}) {
    job_.phantom_rank = rank;
    ASSERT_EQ(run(), ExitCode::found) << errors_;
    const Outcome alone = outcome();
    EXPECT_FALSE(alone.loss.has_value());
    ASSERT_EQ(alone.memory.stages.size(), 1u);
    const StageMemory& stage = alone.memory.stages.front();
    EXPECT_EQ(stage.stage, rank / 2);
    const StageMemory& real = whole.memory.stages[static_cast<size_t>(rank / 2)];
    for (int use = 0; use < kMemoryUses; ++use) {
      if (use == static_cast<int>(MemoryUse::workspace)) continue;  // grows with the threads
      EXPECT_EQ(stage.bytes[use], real.bytes[use]);
    }
    if (rank > 0) continue;
    EXPECT_EQ(alone.matmul_flops_per_rank, whole.matmul_flops_per_rank);
    ASSERT_EQ(alone.traffic.size(), whole.traffic.size());
    for (size_t i = 0; i < alone.traffic.size(); ++i)
      EXPECT_EQ(alone.traffic[i].payload_bytes, whole.traffic[i].payload_bytes);
  }
}

TEST_F(Worker, RunsAPhantomOfAPlanThatFillsAMachineRoom) {
  job_.plan = {};
  job_.plan.dp = 64;
  job_.plan.tp = 4;
  job_.plan.pp = 4;
  job_.plan.zero = 1;
  job_.plan.gbs = 64 * 4;
  job_.workload.gbs = job_.plan.gbs;
  job_.phantom_rank = 1023;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().memory.stages.front().stage, 3);
}

class UnderMpi : public Worker {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "no mpirun here";
  }
};

TEST_F(UnderMpi, GivesTheResultsOfThreads) {
  ASSERT_EQ(start(""), 0);
  const Outcome threads = outcome();
  ASSERT_EQ(start("mpirun -n 4"), 0);
  const Outcome processes = outcome();
  EXPECT_EQ(*processes.loss, *threads.loss);
  EXPECT_EQ(*processes.gradient_norm, *threads.gradient_norm);
  EXPECT_EQ(processes.matmul_flops_per_rank, threads.matmul_flops_per_rank);
}

TEST_F(UnderMpi, RecordsWhyARankFailed) {
  job_.memory_limit_bytes = 100'000;
  EXPECT_EQ(start("mpirun -n 4"), 3);
  EXPECT_EQ(outcome().status, OutcomeStatus::out_of_memory);
  EXPECT_EQ(start("mpirun -n 3"), 2);
  EXPECT_THAT(outcome().reason, HasSubstr("started 3 MPI ranks for a plan of 4"));
}

TEST(WorkerArguments, AreAPathAndThreads) {
  const char* good[] = {"autotune-worker", "job.json", "--threads", "4"};
  EXPECT_EQ(parse_worker_arguments(4, good).threads, 4);
  EXPECT_EQ(parse_worker_arguments(4, good).job_path, "job.json");
  const char* bad[] = {"autotune-worker", "job.json", "--threads=0"};
  EXPECT_THROW(parse_worker_arguments(3, bad), InputError);
  const char* unknown[] = {"autotune-worker", "job.json", "--verbose"};
  EXPECT_THROW(parse_worker_arguments(3, unknown), InputError);
  EXPECT_THROW(parse_worker_arguments(1, good), InputError);
}

}  // namespace
}  // namespace engine
