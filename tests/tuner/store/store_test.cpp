// The store keeps what it is given, filters and deletes it, and survives others and accidents.
#include "tuner/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "/storeXXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/deep/er/runs.db";
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  std::string path_;
};

RunRecord example_run(const std::string& model = "gpt3-175b",
                      const std::string& gpu = "a100-80gb") {
  RunRecord run;
  run.command_line = "autotune train --model 175b --gpus 1024";
  run.kind = "train";
  run.model = model;
  run.gpu = gpu;
  run.gpus = 1024;
  run.title = "tp 8 · it's \"quoted\"; -- and ünïcode";
  run.status = "found";
  run.tool_version = "0.1.0";
  run.answer = R"({"schema":"autotune.train/1","text":"a'b"})";
  return run;
}

std::vector<int64_t> ids(const std::vector<RunSummary>& runs) {
  std::vector<int64_t> list;
  for (const RunSummary& run : runs) list.push_back(run.id);
  return list;
}

TEST_F(StoreTest, KeepsARunAcrossOpenings) {
  const RunRecord given = example_run();
  const int64_t id = Store(path_).add_run(given);
  const RunRecord kept = Store(path_, Access::read).run(id);
  EXPECT_EQ(kept.id, id);
  EXPECT_THAT(kept.created_at, MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"));
  EXPECT_EQ(kept.command_line, given.command_line);
  EXPECT_EQ(kept.kind, given.kind);
  EXPECT_EQ(kept.model, given.model);
  EXPECT_EQ(kept.gpu, given.gpu);
  EXPECT_EQ(kept.gpus, given.gpus);
  EXPECT_EQ(kept.title, given.title);
  EXPECT_EQ(kept.status, given.status);
  EXPECT_EQ(kept.tool_version, given.tool_version);
  EXPECT_EQ(kept.answer, given.answer);
}

TEST_F(StoreTest, ListsNewestFirstAndFilters) {
  Store store(path_);
  store.add_run(example_run("gpt3-175b", "a100-80gb"));
  store.add_run(example_run("llama-2-70b", "h100-sxm"));
  store.add_run(example_run("gpt3-20b", "h100-sxm"));
  EXPECT_THAT(ids(store.runs()), ElementsAre(3, 2, 1));
  EXPECT_THAT(ids(store.runs({.model = "GPT3"})), ElementsAre(3, 1));
  EXPECT_THAT(ids(store.runs({.gpu = "h100"})), ElementsAre(3, 2));
  EXPECT_THAT(ids(store.runs({.model = "gpt3", .gpu = "h100"})), ElementsAre(3));
  EXPECT_THAT(ids(store.runs({.limit = 2})), ElementsAre(3, 2));
  EXPECT_THAT(ids(store.runs({.since = "2020-01-01"})), ElementsAre(3, 2, 1));
  EXPECT_THAT(ids(store.runs({.since = "9999-01-01"})), ElementsAre());
  EXPECT_THAT(ids(store.runs({.model = "%"})), ElementsAre());
  EXPECT_EQ(store.last_run()->id, 3);
}

TEST_F(StoreTest, DeletesAllOrNothingAndNeverGivesANumberTwice) {
  Store store(path_);
  for (int i = 0; i < 3; ++i) store.add_run(example_run());
  try {
    store.delete_runs({1, 7, 8});
    FAIL() << "runs 7 and 8 do not exist";
  } catch (const engine::InputError& error) {
    EXPECT_THAT(error.problems(), ElementsAre(HasSubstr("no run 7"), HasSubstr("no run 8")));
  }
  EXPECT_THAT(ids(store.runs()), ElementsAre(3, 2, 1));
  store.delete_runs({1, 3});
  EXPECT_THAT(ids(store.runs()), ElementsAre(2));
  EXPECT_EQ(store.add_run(example_run()), 4);
  EXPECT_THROW(store.run(3), engine::InputError);
}

TEST_F(StoreTest, AReaderMakesNoFile) {
  const Store store(path_, Access::read);
  EXPECT_TRUE(store.runs().empty());
  EXPECT_FALSE(store.last_run().has_value());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/deep"));
}

TEST_F(StoreTest, MeasurementsOutliveTheirRun) {
  Store store(path_);
  const int64_t run = store.add_run(example_run());
  store.add_environment("env1", R"({"gpu":"x"})");
  store.add_environment("env1", R"({"gpu":"other"})");
  EXPECT_EQ(store.environment("env1"), R"({"gpu":"x"})");
  EXPECT_EQ(store.environment("env2"), "");
  const TrialRecord asked = {
      .run_id = run, .plan_hash = "p1", .environment = "env1", .job = R"({"steps":3})"};
  const int64_t first = store.add_trial(asked);
  const int64_t second = store.add_trial(asked);
  store.add_samples(first, {{2, 0.25}, {1, 0.5}});
  store.add_outcome(first, "ok", "", R"({"step_seconds":0.3})");

  const auto trials = store.trials(run);
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials[0].id, first);
  EXPECT_EQ(trials[0].status, "ok");
  EXPECT_EQ(trials[0].outcome, R"({"step_seconds":0.3})");
  EXPECT_EQ(trials[0].job, asked.job);
  EXPECT_EQ(trials[1].id, second);
  EXPECT_EQ(trials[1].status, "");
  EXPECT_EQ(store.finished_trials("p1", "env1").size(), 1u);
  EXPECT_TRUE(store.finished_trials("p1", "env2").empty());
  EXPECT_TRUE(store.finished_trials("p2", "env1").empty());

  store.delete_runs({run});
  EXPECT_TRUE(store.trials(run).empty());
  ASSERT_EQ(store.finished_trials("p1", "env1").size(), 1u);
  EXPECT_EQ(store.finished_trials("p1", "env1")[0].run_id, 0);
  const auto samples = store.samples(first);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].step, 1);
  EXPECT_EQ(samples[0].seconds, 0.5);
  EXPECT_EQ(samples[1].seconds, 0.25);
}

TEST_F(StoreTest, RefusesWhatWouldSpoilMeasurements) {
  Store store(path_);
  store.add_environment("e", "{}");
  const int64_t trial = store.add_trial({.plan_hash = "p", .environment = "e", .job = "{}"});
  store.add_samples(trial, {{1, 0.5}});
  store.add_outcome(trial, "ok", "", "{}");
  EXPECT_THROW(store.add_outcome(trial, "crashed", "again", "{}"), std::logic_error);
  EXPECT_THROW(store.add_samples(trial, {{2, 0.5}, {1, 0.6}}), std::logic_error);
  EXPECT_EQ(store.samples(trial).size(), 1u) << "half a batch was stored";
  EXPECT_THROW(store.add_trial({.plan_hash = "p", .environment = "?", .job = "{}"}),
               std::logic_error);
  Database database(path_, std::chrono::seconds(1));
  EXPECT_THROW(database.execute("UPDATE samples SET seconds = 0"), std::logic_error);
  EXPECT_THROW(database.execute("DELETE FROM outcomes"), std::logic_error);
}

// Forks a child that runs `body` and ends with its result; returns its process id.
pid_t in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 99;
    try {
      result = body();
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(result);
  }
  return child;
}

int exit_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(StoreTest, TwoProcessesAddAHundredRunsEach) {
  const auto add_hundred = [this] {
    for (int i = 0; i < 100; ++i)
      Store(path_, Access::write, std::chrono::seconds(30)).add_run(example_run());
    return 0;
  };
  const pid_t first = in_child(add_hundred);
  const pid_t second = in_child(add_hundred);
  EXPECT_EQ(exit_of(first), 0);
  EXPECT_EQ(exit_of(second), 0);
  EXPECT_EQ(Store(path_).runs().size(), 200u);
}

TEST_F(StoreTest, TwoThreadsAddAHundredRunsEach) {
  const auto add_hundred = [this] {
    Store store(path_, Access::write, std::chrono::seconds(30));
    for (int i = 0; i < 100; ++i) store.add_run(example_run());
  };
  {
    const std::jthread first(add_hundred);
    const std::jthread second(add_hundred);
  }
  EXPECT_EQ(Store(path_).runs().size(), 200u);
}

TEST_F(StoreTest, KilledWriterLosesNothingThatWasAcknowledged) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t writer = in_child([&] {
    Store store(path_);
    while (true) {
      const int64_t id = store.add_run(example_run());
      if (write(pipe_ends[1], &id, sizeof id) != sizeof id) return 1;
    }
  });
  close(pipe_ends[1]);
  std::set<int64_t> acknowledged;
  int64_t id = 0;
  while (acknowledged.size() < 50 && read(pipe_ends[0], &id, sizeof id) == sizeof id)
    acknowledged.insert(id);
  kill(writer, SIGKILL);
  while (read(pipe_ends[0], &id, sizeof id) == sizeof id) acknowledged.insert(id);
  close(pipe_ends[0]);
  EXPECT_EQ(exit_of(writer), 128 + SIGKILL);

  const auto kept = ids(Store(path_).runs());
  const std::set<int64_t> stored(kept.begin(), kept.end());
  EXPECT_TRUE(
      std::includes(stored.begin(), stored.end(), acknowledged.begin(), acknowledged.end()));
  EXPECT_LE(stored.size(), acknowledged.size() + 1);
}

TEST_F(StoreTest, DefaultPathFollowsXdg) {
  setenv("HOME", "/users/someone", 1);
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(default_store_path(), "/data/autotune/autotune.db");
  setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(default_store_path(), "/users/someone/.local/share/autotune/autotune.db");
  unsetenv("XDG_DATA_HOME");
  EXPECT_EQ(default_store_path(), "/users/someone/.local/share/autotune/autotune.db");
  unsetenv("HOME");
  EXPECT_THROW(default_store_path(), engine::Error);
}

}  // namespace
}  // namespace tuner
