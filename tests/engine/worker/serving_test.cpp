// Serving jobs through the worker: trials under every arrival, texts, evaluations, stops.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/plan/job.h"
#include "engine/plan/outcome.h"
#include "engine/worker/worker.h"
#include "tests/support/tiny_models.h"

namespace engine {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ServingWorker : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("autotune_{}_{}", getpid(),
                          testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    job_.model = tiny::llama();
    job_.model.vocab = 257;
    job_.model.positions = 64;
    job_.workload.seq = 64;
    job_.workload.gbs = 1;
    job_.workload.precision = Precision::f32;
    job_.steps = 5;
    job_.warmup_steps = 1;
    job_.outcome_path = path("outcome.json");
    job_.events_path = path("events.jsonl");
    spec().batch = 3;
    spec().input = 9;
    spec().output = 4;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ServingSpec& spec() { return job_.serving ? *job_.serving : job_.serving.emplace(); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name)) << text;
    spec().requests_path = path(name);
    spec().arrival = Arrival::saturated;
  }
  ExitCode run() {
    std::ofstream(path("job.json")) << job_to_json(job_).dump();
    fs::remove(job_.events_path);
    std::ostringstream errors;
    const ExitCode code = run_worker({path("job.json"), 0, stop_, {}}, errors);
    errors_ = errors.str();
    return code;
  }
  Outcome outcome() const {
    return outcome_from_json(parse_json(read_text_file(job_.outcome_path), "outcome"), "outcome");
  }
  std::vector<Json> events(const std::string& name) const {
    std::vector<Json> found;
    std::ifstream file(job_.events_path);
    for (std::string line; std::getline(file, line);)
      if (Json event = Json::parse(line); event["event"] == name) found.push_back(event);
    return found;
  }
  // What was told of each request, put together.
  std::map<int, std::string> texts() const {
    std::map<int, std::string> all;
    for (const Json& event : events("token"))
      all[event["request"]] += event["text"].get<std::string>();
    return all;
  }

  fs::path folder_;
  Job job_;
  std::string errors_;
  const std::atomic<bool>* stop_ = nullptr;
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
  job_.phantom_rank = 0;
  EXPECT_EQ(run(), ExitCode::usage);
}

}  // namespace
}  // namespace engine
