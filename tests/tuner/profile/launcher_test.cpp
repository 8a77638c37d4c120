// Everything that can go wrong inside a trial is an outcome of the right status, and no process is
// left behind.
#include "tuner/profile/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "engine/base/errors.h"
#include "tests/support/fake_worker.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;
using ::testing::HasSubstr;

struct Fault {
  std::string name;
  std::string body;  // of the script
  OutcomeStatus status;
  std::string reason;  // part of it
};

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, IsAnOutcomeWithItsReason) {
  TemporaryFolder folder;
  TrialLimits limits;
  limits.deadline_seconds = 1;
  const TrialEnd end =
      run_trial(fake_worker(folder, GetParam().body), small_job(), folder.path(), limits);
  EXPECT_EQ(name_of(end.outcome.status), name_of(GetParam().status));
  EXPECT_THAT(end.outcome.reason, HasSubstr(GetParam().reason));
  EXPECT_TRUE(end.outcome.measured);
  EXPECT_EQ(end.by_chance, GetParam().name == "killed" || GetParam().name == "aborted");
}

INSTANTIATE_TEST_SUITE_P(
    Table, Faults,
    testing::Values(
        Fault{"killed", "kill -9 $$", OutcomeStatus::crashed, "signal 9"},
        Fault{"aborted", "echo 'assertion failed' >&2; kill -6 $$", OutcomeStatus::crashed,
              "assertion failed"},
        Fault{"hung", "sleep 100", OutcomeStatus::timed_out, "no end after 1.00 s"},
        Fault{"deaf", "trap '' TERM; while :; do sleep 0.1; done", OutcomeStatus::timed_out,
              "no end"},
        Fault{"garbage", "head -c 300 /dev/urandom; head -c 300 /dev/zero >&2; exit 3",
              OutcomeStatus::crashed, "code 3: it wrote no outcome"},
        Fault{"missing", "exit 0", OutcomeStatus::crashed, "it wrote no outcome"},
        Fault{"truncated", good_outcome() + "truncate -s 40 \"$folder/outcome.json\"",
              OutcomeStatus::crashed, "outcome.json"},
        Fault{"empty", ": > \"$folder/outcome.json\"", OutcomeStatus::crashed, "outcome.json"},
        Fault{"timeless",
              "echo '{\"status\": \"ok\", \"step_seconds\": null}' > \"$folder/outcome.json\"",
              OutcomeStatus::crashed, "no step time"},
        Fault{"of_memory",
              "echo '{\"status\": \"out_of_memory\", \"measured\": true, \"reason\": \"full\"}' "
              "> \"$folder/outcome.json\"; exit 3",
              OutcomeStatus::out_of_memory, "full"},
        Fault{"of_numbers",
              "echo '{\"status\": \"bad_numbers\", \"measured\": true, \"reason\": \"NaN\"}' "
              "> \"$folder/outcome.json\"; exit 5",
              OutcomeStatus::bad_numbers, "NaN"}),
    [](const auto& fault) { return fault.param.name; });

TEST(Trial, AWorkerThatCannotBeStartedIsRejected) {
  TemporaryFolder folder;
  const TrialEnd end =
      run_trial({LauncherKind::local, folder / "nothing"}, small_job(), folder.path(), {});
  EXPECT_EQ(end.outcome.status, OutcomeStatus::rejected);
  EXPECT_THAT(end.outcome.reason, HasSubstr("cannot be started"));
}

TEST(Trial, FilesStandInItsFolder) {
  TemporaryFolder folder;
  const TrialEnd end = run_trial(fake_worker(folder, "echo hello; " + good_outcome()), small_job(),
                                 folder.path(), {});
  EXPECT_EQ(end.outcome.status, OutcomeStatus::ok);
  EXPECT_EQ(end.samples, (std::vector<double>{0.5, 0.6, 0.4}));
  EXPECT_EQ(read_bytes(folder / "stdout"), "hello\n");
  EXPECT_EQ(read_bytes(folder / "command"), folder / "worker" + " " + folder / "job.json" + "\n");
}

TEST(Trial, AHopelessOneIsStoppedAndKeepsItsSamples) {
  TemporaryFolder folder;
  TrialLimits limits;
  limits.hopeless_seconds = 1;
  const TrialEnd end = run_trial(fake_worker(folder,
                                             R"(for step in 0 1 2; do
  echo "{\"event\":\"step\",\"step\":$step,\"seconds\":7.5}" >> "$folder/events.jsonl"; done
sleep 100)"),
                                 small_job(), folder.path(), limits);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::interrupted);
  EXPECT_TRUE(end.gave_up);
  EXPECT_EQ(end.samples, (std::vector<double>{7.5, 7.5}));
  EXPECT_LT(end.wall_seconds, 20);
}

TEST(Trial, ASignalToTheTunerEndsIt) {
  TemporaryFolder folder;
  std::atomic<int> stop = 0;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = SIGINT;
  });
  TrialLimits limits;
  limits.stop = &stop;
  const TrialEnd end =
      run_trial(fake_worker(folder, "sleep 100"), small_job(), folder.path(), limits);
  later.join();
  EXPECT_EQ(end.outcome.status, OutcomeStatus::interrupted);
  EXPECT_LT(end.wall_seconds, 20);
}

// Children of the worker belong to its group and end with it.
TEST(Trial, LeavesNoProcessBehind) {
  TemporaryFolder folder;
  TrialLimits limits;
  limits.deadline_seconds = 1;
  const Launcher launcher =
      fake_worker(folder, "sleep 321 & echo $! > \"$folder/child\"; trap '' TERM; sleep 123");
  run_trial(launcher, small_job(), folder.path(), limits);
  const pid_t child = std::stoi(read_bytes(folder / "child"));
  for (int i = 0; i < 100 && kill(child, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(kill(child, 0), 0);
}

TEST(Trial, AFolderThatIsGoneIsAStorageError) {
  try {
    run_trial({LauncherKind::local, "/bin/true"}, small_job(), "/nowhere/at/all", {});
    FAIL();
  } catch (const engine::Error& error) {
    EXPECT_EQ(error.code(), engine::ExitCode::storage);
  }
}

TEST(Launchers, MpirunStartsAProcessARank) {
  const Launcher launcher{LauncherKind::mpirun, "/opt/worker"};
  const auto words = launcher.command(4, "job.json");
  EXPECT_EQ(words[0], "mpirun");
  EXPECT_EQ(words[2], "4");
  EXPECT_EQ(words[words.size() - 2], "/opt/worker");
}

}  // namespace
}  // namespace tuner
