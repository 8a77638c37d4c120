// Trials as batch jobs: what is asked of Slurm, how its answers are read, and how jobs end on a
// real cluster of four emulated nodes.
#include "tuner/profile/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "tests/support/fake_worker.h"
#include "tests/support/slurm_cluster.h"
#include "tuner/profile/profiler.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Slurm, SubmitsRanksByTheNodeWithTheUsersFlags) {
  SlurmOptions options;
  options.partition = "fast";
  options.account = "lab";
  options.flags = {"--qos=high"};
  options.ranks_per_node = 4;
  const auto words = sbatch_command(options, 8, "/opt/it's/worker", "/trials/7-x/job.json", 600);
  for (const char* word : {"--parsable", "--no-requeue", "--ntasks=8", "--nodes=2",
                           "--ntasks-per-node=4", "--time=11", "--partition=fast", "--account=lab",
                           "--qos=high", "--chdir=/trials/7-x", "--job-name=autotune-7-x"})
    EXPECT_THAT(words, Contains(word));
  EXPECT_EQ(words.back(),
            R"(--wrap=exec srun --mpi=pmix '/opt/it'\''s/worker' '/trials/7-x/job.json')");
}

TEST(Slurm, AUnevenLastNodeCountsAsOne) {
  SlurmOptions options;
  options.ranks_per_node = 8;
  EXPECT_THAT(sbatch_command(options, 12, "w", "j", 60), Contains("--nodes=2"));
  EXPECT_THAT(sbatch_command(options, 2, "w", "j", 60), Contains("--ntasks-per-node=2"));
}

TEST(Slurm, ReadsAJob) {
  const SlurmJob job = parse_scontrol(
      "JobId=12 JobName=a JobState=RUNNING Reason=None Dependency=(null) Requeue=0 Restarts=0 "
      "ExitCode=0:0 RunTime=00:00:03 TimeLimit=00:02:00 ReqNodeList=(null) NodeList=n[1-2] "
      "BatchHost=n1\n");
  EXPECT_EQ(job.state, "RUNNING");
  EXPECT_EQ(job.reason, "None");
  EXPECT_EQ(job.nodes, "n[1-2]");
  EXPECT_EQ(job.exit_code, "0:0");
  EXPECT_FALSE(job.has_ended());
  EXPECT_TRUE(SlurmJob{}.has_ended()) << "a job that Slurm has forgotten";
}

TEST(Slurm, EveryStateWaitsRunsOrHasEnded) {
  const auto job = [](const char* state) { return SlurmJob{state, "", "", ""}; };
  for (const char* state : {"PENDING", "CONFIGURING", "REQUEUED"})
    EXPECT_TRUE(job(state).is_waiting() && !job(state).has_ended()) << state;
  for (const char* state : {"RUNNING", "COMPLETING", "SUSPENDED"})
    EXPECT_TRUE(!job(state).is_waiting() && !job(state).has_ended()) << state;
  for (const char* state : {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT",
                            "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE"})
    EXPECT_TRUE(job(state).has_ended()) << state;
}

// On a real Slurm, one for all tests of this process.
class OnSlurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (test_support::SlurmCluster::missing().empty())
      cluster_ = std::make_unique<test_support::SlurmCluster>(4, 1);
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster_) GTEST_SKIP() << "no Slurm: " << test_support::SlurmCluster::missing();
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(variable, "1", 1);
    // Both "nodes" are one host, whose shared memory has one namespace.
    setenv("OMPI_MCA_pml", "ob1", 1);
    setenv("OMPI_MCA_btl", "self,tcp", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
  }

  Launcher launcher(const std::string& script) {
    Launcher launcher = fake_worker(folder_, script);
    launcher.kind = LauncherKind::slurm;
    launcher.slurm.ranks_per_node = 1;
    return launcher;
  }
  TrialEnd run(const Launcher& launcher, int ranks, const TrialLimits& limits = {}) {
    return run_trial(launcher, small_job(ranks), folder_.path(), limits);
  }

  TemporaryFolder folder_;
  static std::unique_ptr<test_support::SlurmCluster> cluster_;
};
std::unique_ptr<test_support::SlurmCluster> OnSlurm::cluster_;

TEST_F(OnSlurm, TheEngineTrainsOnFourNodes) {
  Launcher real = launcher("");
  real.worker = AUTOTUNE_BINARY_DIR "/autotune-worker";
  if (!std::ifstream(real.worker)) GTEST_SKIP() << "this build has no worker";
  const TrialEnd end = run(real, 4);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::ok) << end.outcome.reason;
  EXPECT_EQ(end.samples.size(), 2u);
  EXPECT_THAT(read_bytes(folder_ / "command"), HasSubstr("srun --mpi=pmix"));
  EXPECT_EQ(cluster_->jobs(), 0);
}

TEST_F(OnSlurm, TrialsRunSideBySideOnNodesOfTheirOwn) {
  setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1);
  Store store(folder_ / "runs.db");
  // Each waits until it sees the other.
  Profiler measuring(
      store, 0,
      launcher("touch " + folder_ / "seen-$(basename $folder)" + "\nwhile [ $(ls " +
               folder_.path() + " | grep -c seen-) -lt 2 ]; do sleep 0.1; done\n" + good_outcome()),
      Host{});
  engine::Job second = small_job();
  second.workload.seq = 32;
  TrialLimits limits;
  limits.deadline_seconds = 20;
  const auto found = measuring.measure_together({{small_job(), limits}, {second, limits}}, 3);
  unsetenv("XDG_STATE_HOME");
  ASSERT_EQ(found.size(), 2u);
  for (const Measurement& one : found)
    EXPECT_EQ(one.outcome.status, OutcomeStatus::ok) << one.outcome.reason;
  EXPECT_EQ(store.finished_trials(hash_of(second), measuring.environment()).size(), 1u);
}

TEST_F(OnSlurm, AJobThatEndsBadlyHasItsCodeAndWords) {
  const TrialEnd end = run(launcher("echo 'no luck' >&2; exit 7"), 1);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::crashed);
  EXPECT_THAT(end.outcome.reason, HasSubstr("FAILED with code 7:0: it wrote no outcome"));
  EXPECT_THAT(end.outcome.reason, HasSubstr("no luck"));
}

TEST_F(OnSlurm, AJobThatIsRefusedIsRejected) {
  Launcher refused = launcher("exit 0");
  refused.slurm.partition = "nosuch";
  const TrialEnd end = run(refused, 1);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::rejected);
  EXPECT_THAT(end.outcome.reason, HasSubstr("Slurm refused the job: sbatch: error: "));
  EXPECT_FALSE(end.by_chance);
}

TEST_F(OnSlurm, AJobThatNeverStartsIsCancelled) {
  Launcher waiting = launcher("exit 0");
  waiting.slurm.partition = "stopped";
  waiting.slurm.wait_seconds = 1;
  const TrialEnd end = run(waiting, 1);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::rejected);
  EXPECT_THAT(end.outcome.reason, HasSubstr("did not start"));
  EXPECT_LT(end.wall_seconds, 0.5) << "waiting is not running";
  EXPECT_EQ(cluster_->jobs(), 0);
}

TEST_F(OnSlurm, AJobCancelledFromOutsideIsInterrupted) {
  std::thread somebody([] {
    const std::string id = cluster_->wait_for_job("RUNNING");
    cluster_->run({"scancel", id});
  });
  const TrialEnd end = run(launcher("exec sleep 100"), 1);
  somebody.join();
  EXPECT_EQ(end.outcome.status, OutcomeStatus::interrupted);
  EXPECT_THAT(end.outcome.reason, HasSubstr("cancelled from outside"));
}

TEST_F(OnSlurm, ANodeThatGoesDownIsACrashWorthARetry) {
  std::thread trouble([] {
    cluster_->wait_for_job("RUNNING");
    cluster_->set_node("n2", "down");
  });
  const TrialEnd end = run(launcher("exec sleep 100"), 4);
  trouble.join();
  EXPECT_EQ(end.outcome.status, OutcomeStatus::crashed);
  EXPECT_THAT(end.outcome.reason, HasSubstr("lost a node"));
  EXPECT_TRUE(end.by_chance);
  cluster_->set_node("n2", "resume");
}

TEST_F(OnSlurm, TheDeadlineCancelsTheJob) {
  TrialLimits limits;
  limits.deadline_seconds = 1;
  const TrialEnd end = run(launcher("exec sleep 100"), 2, limits);
  EXPECT_EQ(end.outcome.status, OutcomeStatus::timed_out);
  for (int i = 0; i < 50 && cluster_->jobs() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(cluster_->jobs(), 0);
}

TEST_F(OnSlurm, ATunerThatIsKilledLeavesNoJob) {
  const pid_t tuner = fork();
  if (tuner == 0) {
    run(launcher("exec sleep 100"), 1);
    _exit(0);
  }
  ASSERT_NE(cluster_->wait_for_job("RUNNING"), "");
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  for (int i = 0; i < 100 && cluster_->jobs() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(cluster_->jobs(), 0);
}

}  // namespace
}  // namespace tuner
