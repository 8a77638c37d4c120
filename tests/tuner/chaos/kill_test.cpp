// A tuner that is killed a hundred times loses at most the trial in flight each time, leaves no
// process behind, and recommends in the end what was measured best.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/temporary_folder.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

namespace fs = std::filesystem;

class Killing : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(AUTOTUNE_BINARY_DIR "/autotune-worker")) GTEST_SKIP() << "no worker";
    for (const char* name : {"XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"})
      setenv(name, (folder_ / name).c_str(), 1);
    write_bytes(folder_ / "worker", "#!/bin/sh\necho $$ > " + folder_ / "pid" +
                                        "\nexec " AUTOTUNE_BINARY_DIR "/autotune-worker \"$@\"\n");
    fs::permissions(folder_ / "worker", fs::perms::owner_all);
    setenv("AUTOTUNE_WORKER", (folder_ / "worker").c_str(), 1);
  }

  pid_t start() const {
    const pid_t child = fork();
    if (child != 0) return child;
    const int null = open("/dev/null", O_RDWR);
    for (const int descriptor : {0, 1, 2}) dup2(null, descriptor);
    execl(AUTOTUNE_BINARY_DIR "/autotune", "autotune", "train", "--model", "gpt3-tiny", "--gpus",
          "2", "--seq", "64", "--gbs", "8", "--device", "cpu", "--measure", "6", "--no-calibrate",
          nullptr);
    _exit(127);
  }

  bool worker_runs() const {
    if (!fs::exists(folder_ / "pid")) return false;
    const std::string text = read_bytes(folder_ / "pid");
    if (text.empty()) return false;
    std::ifstream status("/proc/" + text.substr(0, text.find('\n')) + "/stat");
    std::string pid, name, state;
    return status >> pid >> name >> state && state != "Z" && state != "X";
  }

  size_t finished_trials() const {
    const Store store(folder_ / "XDG_DATA_HOME/autotune/autotune.db", Access::read);
    size_t count = 0;
    for (int64_t id = 1;; ++id) {
      const auto trial = store.trial(id);
      if (!trial) return count;
      count += trial->status.empty() ? 0 : 1;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Killing, AHundredTimesLosesNoCommittedTrial) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> pause(1, 900);
  size_t before = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t tuner = start();
    std::this_thread::sleep_for(std::chrono::milliseconds(pause(random)));
    kill(tuner, SIGKILL);
    waitpid(tuner, nullptr, 0);
    for (int wait = 0; wait < 100 && worker_runs(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_FALSE(worker_runs()) << "kill " << i;
    const size_t now = finished_trials();
    ASSERT_GE(now, before) << "kill " << i;
    before = now;
  }
  int status = 0;
  waitpid(start(), &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Store store(folder_ / "XDG_DATA_HOME/autotune/autotune.db", Access::read);
  ASSERT_TRUE(store.last_run());
  EXPECT_EQ(store.last_run()->status, "found");
}

}  // namespace
}  // namespace tuner
