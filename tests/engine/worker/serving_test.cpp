// Serving jobs through the worker: trials under every arrival, texts, evaluations, stops.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/engine/worker/worker_fixture.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

using ::testing::HasSubstr;

class ServingWorker : public WorkerFixture {
 protected:
  ServingWorker() {
    job_.model = tiny::llama();
    job_.model.vocab = 257;
    job_.model.positions = 64;
    job_.workload.seq = 64;
    job_.workload.gbs = 1;
    job_.steps = 5;
    spec().batch = 3;
    spec().input = 9;
    spec().output = 4;
  }
  ServingSpec& spec() { return job_.serving ? *job_.serving : job_.serving.emplace(); }
  // Events of this run only.
  ExitCode run() {
    std::filesystem::remove(job_.events_path);
    return WorkerFixture::run();
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    spec().requests_path = path(name);
    spec().arrival = Arrival::saturated;
  }
  // What was told of each request, put together.
  std::map<int, std::string> texts() const {
    std::map<int, std::string> all;
    for (const Json& event : events("token"))
      all[event["request"]] += event["text"].get<std::string>();
    return all;
  }
};

TEST_F(ServingWorker, TimesStaticBatches) {
  job_.plan.tp = job_.plan.dp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome result = outcome();
  ASSERT_TRUE(result.serving.has_value());
  EXPECT_EQ(result.samples_seconds.size(), 4u);
  EXPECT_EQ(result.serving->requests, 2 * 3 * 4);
  EXPECT_GT(result.serving->ttft_seconds.p50, 0);
  EXPECT_GT(result.serving->latency_seconds.p50, result.serving->ttft_seconds.p50);
  EXPECT_GT(result.serving->tokens_per_second, 0);
  EXPECT_EQ(events("step").size(), 5u);
  EXPECT_GT(result.memory.stages.at(0)[MemoryUse::kv_cache], 0);
  EXPECT_EQ(result.memory.stages.at(0)[MemoryUse::gradient], 0);
}

TEST_F(ServingWorker, TimesClosedLoopsAndPoissonArrivals) {
  spec().arrival = Arrival::closed_loop;
  spec().concurrency = 4;
  job_.plan.dp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().serving->requests, 2 * 2 * 4);  // two clients a replica, four steps
  spec().arrival = Arrival::poisson;
  spec().requests_per_second = 2000;
  job_.plan.dp = 1;
  job_.plan.pp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().serving->requests, 3 * 4);
  EXPECT_EQ(outcome().samples_seconds.size(), 4u);
}

TEST_F(ServingWorker, TellsTheSameTextsUnderEveryPlan) {
  write("requests.jsonl",
        "{\"prompt\": \"Once upon\", \"max_tokens\": 12}\n\n"
        "{\"prompt\": \"a time\", \"max_tokens\": 9, \"temperature\": 1, \"top_k\": 50}\n"
        "{\"prompt\": \"there\", \"max_tokens\": 7, \"temperature\": 0.7, \"top_p\": 0.9}\n");
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const auto serial = texts();
  ASSERT_EQ(serial.size(), 3u);
  EXPECT_EQ(events("finished").size(), 3u);
  EXPECT_EQ(outcome().serving->requests, 3);
  job_.plan.tp = job_.plan.pp = job_.plan.dp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(texts(), serial);
}

TEST_F(ServingWorker, MeasuresTextsAndExamples) {
  // A model that knows nothing: every token is about equally likely.
  write("text.txt", std::string(150, 'a') + " and more of it");
  spec().evaluation = Evaluation::perplexity;
  job_.plan.pp = 2;
  for (const int64_t stride : {0, 16}) {
    spec().stride = stride;
    ASSERT_EQ(run(), ExitCode::found) << errors_;
    EXPECT_EQ(outcome().serving->scored_tokens, 164);
    EXPECT_NEAR(outcome().serving->perplexity, 257, 40);
  }
  write("words.jsonl", "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"one two\"}\n");
  spec().evaluation = Evaluation::last_word;
  job_.plan.dp = 2;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().serving->scored_tokens, 4 + 4);
  EXPECT_EQ(outcome().serving->examples, 2);
  EXPECT_EQ(outcome().serving->accuracy, 0);
  // Of choices that differ in length only, the shorter has the lower loss.
  write("choices.jsonl",
        "{\"context\": \"x\", \"choices\": [\" aaaaaaaa\", \" b\"], \"answer\": 1}\n"
        "{\"context\": \"y\", \"choices\": [\" cc\", \" dddddddd\"], \"answer\": 1}\n");
  spec().evaluation = Evaluation::choice;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().serving->examples, 2);
  EXPECT_EQ(outcome().serving->accuracy, 0.5);
}

TEST_F(ServingWorker, AStopCancelsWhatRuns) {
  write("requests.jsonl", "{\"prompt\": \"Once upon a time\", \"max_tokens\": 40}\n");
  const std::atomic<bool> stop{true};
  stop_ = &stop;
  EXPECT_EQ(run(), ExitCode::terminated);
  EXPECT_EQ(outcome().status, OutcomeStatus::interrupted);
  EXPECT_LE(texts().size(), 1u);
}

TEST_F(ServingWorker, NamesEveryBadRequest) {
  write("requests.jsonl",
        "{\"prompt\": \"fine\"}\n{\"prompt\": 5}\n{\"prompt\": \"x\", \"max_token\": 5}\n[]\n");
  EXPECT_EQ(run(), ExitCode::usage);
  for (const char* place : {"requests.jsonl:2", "requests.jsonl:3", "requests.jsonl:4"})
    EXPECT_THAT(errors_, HasSubstr(place));
  write("long.jsonl", "{\"prompt\": \"x\", \"max_tokens\": 64}\n");
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_THAT(errors_, HasSubstr("generate at most 63"));
  write("empty.jsonl", "\n");
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_THAT(errors_, HasSubstr("holds no lines"));
  spec().requests_path.clear();
  job_.memory_limit_bytes = 1000;
  EXPECT_EQ(run(), ExitCode::nothing_fits);
  EXPECT_EQ(outcome().status, OutcomeStatus::out_of_memory);
}

// A phantom rank has the memory, the products and the messages of the real one.
TEST_F(ServingWorker, RunsOneRankOfAPlanAlone) {
  job_.plan.tp = job_.plan.pp = 2;
  spec().batch = 4;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome whole = outcome();
  for (int64_t rank = 0; rank < 4; ++rank) {
    job_.phantom_rank = rank;
    ASSERT_EQ(run(), ExitCode::found) << errors_;
    const Outcome alone = outcome();
    ASSERT_EQ(alone.memory.stages.size(), 1u);
    const StageMemory& stage = alone.memory.stages.front();
    const StageMemory& real = whole.memory.stages[static_cast<size_t>(rank / 2)];
    EXPECT_EQ(stage.stage, rank / 2);
    for (const MemoryUse use : {MemoryUse::parameter, MemoryUse::kv_cache, MemoryUse::activation,
                                MemoryUse::communication})
      EXPECT_EQ(stage[use], real[use]) << name_of(use);
    EXPECT_GT(stage[MemoryUse::kv_cache], 0);
    EXPECT_EQ(alone.samples_seconds.size(), 4u);
    EXPECT_EQ(alone.serving->requests, 4 * 4);
    EXPECT_GT(alone.serving->ttft_seconds.p50, 0);
    EXPECT_GT(alone.serving->tpot_seconds.p50, 0);
    EXPECT_EQ(events("step").size(), 5u) << "they are kept when the trial is cut off";
    job_.steps = 2;
    ASSERT_EQ(run(), ExitCode::found) << errors_;
    EXPECT_EQ(outcome().matmul_flops_per_rank, alone.matmul_flops_per_rank)
        << "counts are those of one batch";
    job_.steps = 5;
    if (rank > 0) continue;
    EXPECT_EQ(alone.matmul_flops_per_rank, whole.matmul_flops_per_rank);
    ASSERT_EQ(alone.traffic.size(), whole.traffic.size());
    for (size_t i = 0; i < alone.traffic.size(); ++i)
      EXPECT_EQ(alone.traffic[i].payload_bytes, whole.traffic[i].payload_bytes)
          << alone.traffic[i].axis << " " << alone.traffic[i].verb;
  }
}

TEST_F(ServingWorker, RunsAPhantomOfAPlanThatFillsAMachineRoom) {
  job_.plan.dp = 64;
  job_.plan.tp = 4;
  job_.plan.pp = 4;
  job_.phantom_rank = 1023;
  spec().arrival = Arrival::closed_loop;
  spec().concurrency = 64 * 3;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  EXPECT_EQ(outcome().memory.stages.front().stage, 3);
  job_.phantom_rank = 1024;
  EXPECT_EQ(run(), ExitCode::usage);
  job_.phantom_rank = 0;
  write("requests.jsonl", "{\"prompt\": \"Once\"}\n");
  EXPECT_EQ(run(), ExitCode::usage);
  EXPECT_THAT(errors_, HasSubstr("no text to generate"));
}

// One is cut short in mid-stream and the other never begins; what was told stays.
TEST_F(ServingWorker, AStopInMidStreamCancelsWhatRunsAndWhatWaits) {
  job_.model.positions = job_.workload.seq = 4096;
  spec().batch = 1;
  write("requests.jsonl",
        "{\"prompt\": \"Once upon\", \"max_tokens\": 4000}\n"
        "{\"prompt\": \"a time\", \"max_tokens\": 4000}\n");
  std::atomic<bool> stop{false}, ended{false};
  stop_ = &stop;
  std::thread user([&] {
    while (!ended && events("token").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
  });
  const ExitCode code = run();
  ended = true;
  user.join();
  EXPECT_EQ(code, ExitCode::terminated);
  EXPECT_EQ(outcome().status, OutcomeStatus::interrupted);
  const auto finished = events("finished");
  ASSERT_EQ(finished.size(), 2u);
  std::map<int, int> tokens;
  for (const Json& event : finished) {
    EXPECT_EQ(event["finish"], "cancelled");
    tokens[event["request"]] = event["tokens"];
  }
  EXPECT_GT(tokens[0], 0);
  EXPECT_LT(tokens[0], 4000);
  EXPECT_EQ(tokens[1], 0);
  EXPECT_FALSE(texts()[0].empty());
}

TEST_F(ServingWorker, ReplicasThatAreProcessesTellTheTextsOfThreads) {
  if (!has_mpirun()) GTEST_SKIP() << "no mpirun here";
  write("requests.jsonl",
        "{\"prompt\": \"Once upon\", \"max_tokens\": 12}\n"
        "{\"prompt\": \"a time\", \"max_tokens\": 9, \"temperature\": 1, \"top_k\": 50}\n"
        "{\"prompt\": \"there\", \"max_tokens\": 7, \"temperature\": 0.7, \"top_p\": 0.9}\n");
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const auto serial = texts();
  ASSERT_EQ(serial.size(), 3u);
  job_.plan.dp = 2;
  std::filesystem::remove(job_.events_path);
  ASSERT_EQ(start("mpirun -n 2"), 0) << read_text_file(path("stderr"));
  EXPECT_EQ(texts(), serial);
  EXPECT_EQ(outcome().serving->requests, 3);
  EXPECT_EQ(events("finished").size(), 3u);
}

TEST_F(ServingWorker, ABatchWhoseCacheCannotFitSaysSo) {
  job_.model.positions = job_.workload.seq = 4096;
  ASSERT_EQ(run(), ExitCode::found) << errors_;
  const Outcome fits = outcome();
  job_.memory_limit_bytes = 2 * fits.memory.peak_bytes;
  spec().batch = 12;
  EXPECT_EQ(run(), ExitCode::nothing_fits);
  EXPECT_EQ(outcome().status, OutcomeStatus::out_of_memory);
  EXPECT_THAT(outcome().reason, HasSubstr("fewer sequences in flight"));
  // The same batch over a cache of what there is takes turns.
  spec().arrival = Arrival::saturated;
  spec().kv_tokens = 4096;
  EXPECT_EQ(run(), ExitCode::found) << errors_;
}

}  // namespace
}  // namespace engine
