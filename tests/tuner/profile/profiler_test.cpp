// Trials are stored before the next one begins, recalled, and repeated only where that can help.
#include "tuner/profile/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "engine/base/errors.h"
#include "tests/support/child_process.h"
#include "tests/support/fake_worker.h"

namespace tuner {
namespace {

using engine::OutcomeStatus;

class Profiling : public testing::Test {
 protected:
  Profiling() { setenv("XDG_STATE_HOME", (folder_ / "state").c_str(), 1); }
  ~Profiling() override { unsetenv("XDG_STATE_HOME"); }

  // Counts its starts.
  Profiler profiler(const std::string& body) {
    return {store_, 0, fake_worker(folder_, "echo >> " + folder_ / "starts" + "\n" + body), Host{}};
  }
  int starts() const {
    std::ifstream file(folder_ / "starts");
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  TemporaryFolder folder_;
  Store store_{folder_ / "runs.db"};
};

TEST_F(Profiling, StoresTrialSamplesAndOutcome) {
  Profiler measuring = profiler(good_outcome());
  const Measurement found = measuring.measure(small_job(), 3, {});
  ASSERT_EQ(found.trials.size(), 1u);
  EXPECT_EQ(found.outcome.step_seconds, 0.5);
  EXPECT_EQ(found.outcome.tokens_per_second_per_gpu, 100);
  EXPECT_EQ(store_.samples(found.trials[0]).size(), 3u);
  EXPECT_EQ(store_.samples(found.trials[0])[0].step, 1);
  const auto stored = store_.finished_trials(hash_of(small_job()), measuring.environment());
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].status, "ok");
  EXPECT_THAT(store_.environment(measuring.environment()), testing::HasSubstr("worker_hash"));
}

TEST_F(Profiling, RecallsInsteadOfRunning) {
  const Measurement first = profiler(good_outcome()).measure(small_job(), 3, {});
  const Measurement again = profiler(good_outcome()).measure(small_job(), 3, {});
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(again.new_trials, 0);
  EXPECT_EQ(again.samples, first.samples);
  EXPECT_EQ(again.outcome.step_seconds, first.outcome.step_seconds);
}

TEST_F(Profiling, TakesOnlyTheSamplesThatAreMissing) {
  Profiler measuring = profiler(good_outcome());
  measuring.measure(small_job(), 3, {});
  const Measurement more = measuring.measure(small_job(), 6, {});
  EXPECT_EQ(starts(), 2);
  EXPECT_EQ(more.samples.size(), 6u);
  EXPECT_EQ(more.trials.size(), 2u);
}

TEST_F(Profiling, AnotherWorkerIsAnotherEnvironment) {
  profiler(good_outcome()).measure(small_job(), 3, {});
  profiler(good_outcome() + "\n# rebuilt").measure(small_job(), 3, {});
  EXPECT_EQ(starts(), 2);
}

TEST_F(Profiling, AnotherPlanIsAnotherTrial) {
  Profiler measuring = profiler(good_outcome());
  measuring.measure(small_job(1), 3, {});
  measuring.measure(small_job(2), 3, {});
  EXPECT_EQ(starts(), 2);
}

TEST_F(Profiling, AWorkerThatDiesOnceGetsASecondChance) {
  const std::string body =
      "[ $(wc -l < " + folder_ / "starts" + ") -ge 2 ] || kill -9 $$\n" + good_outcome();
  const Measurement found = profiler(body).measure(small_job(), 3, {});
  EXPECT_EQ(found.outcome.status, OutcomeStatus::ok);
  EXPECT_EQ(found.trials.size(), 2u) << "the first one is kept, too";
}

TEST_F(Profiling, AWorkerThatDiesTwiceHasCrashed) {
  const Measurement found = profiler("kill -9 $$").measure(small_job(), 3, {});
  EXPECT_EQ(found.outcome.status, OutcomeStatus::crashed);
  EXPECT_EQ(starts(), 2);
}

TEST_F(Profiling, OutOfMemoryIsNotTriedAgainButACrashIs) {
  const std::string full =
      "echo '{\"status\":\"out_of_memory\",\"measured\":true}' > \"$folder/outcome.json\"";
  profiler(full).measure(small_job(), 3, {});
  EXPECT_EQ(profiler(full).measure(small_job(), 3, {}).outcome.status,
            OutcomeStatus::out_of_memory);
  EXPECT_EQ(starts(), 1);
  profiler("exit 9").measure(small_job(2), 3, {});
  profiler("exit 9").measure(small_job(2), 3, {});
  EXPECT_EQ(starts(), 3);
}

TEST_F(Profiling, ATrialThatLostBeforeIsNotRunAgain) {
  TrialLimits limits;
  limits.hopeless_seconds = 1;
  const std::string slow = R"(for step in 1 2; do
  echo "{\"event\":\"step\",\"step\":$step,\"seconds\":9}" >> "$folder/events.jsonl"; done
exec sleep 99)";
  profiler(slow).measure(small_job(), 3, limits);
  const Measurement again = profiler(slow).measure(small_job(), 3, limits);
  EXPECT_EQ(starts(), 1);
  EXPECT_EQ(again.outcome.step_seconds, 9);
}

TEST_F(Profiling, TwoTunersOnOneDatabaseLoseNothing) {
  constexpr int kJobs = 15;
  const Launcher worker = fake_worker(folder_, good_outcome());
  const auto tune = [&](int64_t seq) {
    Store own(folder_ / "runs.db");
    Profiler measuring(own, 0, worker, Host{});
    for (int i = 0; i < kJobs; ++i) {
      engine::Job job = small_job();
      job.workload.seq = seq + i;
      measuring.measure(job, 3, {});
    }
  };
  std::thread other([&] { tune(1000); });
  tune(2000);
  other.join();
  const std::string environment = environment_of(Host{}, worker).hash;
  for (const int64_t seq : {1000, 2000})
    for (int i = 0; i < kJobs; ++i) {
      engine::Job job = small_job();
      job.workload.seq = seq + i;
      EXPECT_EQ(store_.finished_trials(hash_of(job), environment).size(), 1u) << seq + i;
    }
}

TEST_F(Profiling, ADatabaseThatAnotherHoldsIsAStorageErrorAndKeepsWhatItHas) {
  profiler(good_outcome()).measure(small_job(1), 3, {});
  {
    Store impatient(folder_ / "runs.db", Access::write, std::chrono::milliseconds(50));
    Profiler measuring(impatient, 0, fake_worker(folder_, good_outcome()), Host{});
    Database holder(folder_ / "runs.db", std::chrono::seconds(1));
    holder.execute("BEGIN EXCLUSIVE");
    try {
      measuring.measure(small_job(2), 3, {});
      FAIL();
    } catch (const engine::Error& error) {
      EXPECT_EQ(error.code(), engine::ExitCode::storage);
      EXPECT_THAT(error.what(), testing::HasSubstr("runs.db"));
    }
    holder.execute("ROLLBACK");
    EXPECT_EQ(measuring.measure(small_job(2), 3, {}).outcome.status, OutcomeStatus::ok);
  }
  EXPECT_EQ(profiler(good_outcome()).measure(small_job(1), 3, {}).new_trials, 0);
}

TEST_F(Profiling, AFullDiskIsAStorageErrorAndKeepsWhatItHas) {
  profiler(good_outcome()).measure(small_job(), 3, {});
  const auto size = static_cast<rlim_t>(std::filesystem::file_size(folder_ / "runs.db"));
  const int code = run_in_child(
      [&] {
        Store full(folder_ / "runs.db");
        Profiler measuring(full, 0, fake_worker(folder_, good_outcome()), Host{});
        try {
          for (int64_t seq = 100; seq < 1100; ++seq) {
            engine::Job job = small_job();
            job.workload.seq = seq;
            measuring.measure(job, 3, {});
          }
        } catch (const engine::Error& error) {
          return static_cast<int>(error.code());
        }
        return 0;
      },
      size + 8192);
  EXPECT_EQ(code, static_cast<int>(engine::ExitCode::storage));
  EXPECT_EQ(profiler(good_outcome()).measure(small_job(), 3, {}).new_trials, 0);
}

TEST_F(Profiling, ARankThatIsKilledUnderMpirunIsTriedAgain) {
  if (std::system("mpirun --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun";
  const std::string worker =
      fake_worker(folder_, "echo >> " + folder_ / "starts" +
                               "\n[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && kill -9 $$\nexec sleep 60")
          .worker;
  Profiler measuring(store_, 0, {LauncherKind::mpirun, worker, {}}, Host{});
  const Measurement found = measuring.measure(small_job(2), 3, {});
  EXPECT_EQ(found.outcome.status, OutcomeStatus::crashed) << found.outcome.reason;
  EXPECT_EQ(found.new_trials, 2);
  EXPECT_LT(found.spent_seconds, 60);
}

// The real worker, whose loss overflows.
TEST_F(Profiling, TheEngineTellsThatItsLossIsNoNumber) {
  const Launcher worker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
  if (!std::ifstream(worker.worker)) GTEST_SKIP() << "this build has no worker";
  Profiler measuring(store_, 0, worker, Host{});
  engine::Job job = small_job();
  job.optimizer.learning_rate = job.optimizer.minimum_rate = 1000;
  job.optimizer.clip_norm = 0;
  job.optimizer.weight_decay = 1000;
  const Measurement found = measuring.measure(job, 20, {});
  EXPECT_EQ(found.outcome.status, OutcomeStatus::bad_numbers) << found.outcome.reason;
  EXPECT_EQ(measuring.measure(job, 20, {}).new_trials, 0) << "it would only repeat itself";
}

// What the system holds is what the meter counts, and one runtime for the process.
TEST_F(Profiling, ResidentMemoryIsTheMetersAndARuntime) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  const Launcher worker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
  if (!std::ifstream(worker.worker)) GTEST_SKIP() << "this build has no worker";
  Profiler measuring(store_, 0, worker, Host{});
  const auto memory = [&](int64_t hidden) {
    engine::Job job = small_job(2);
    job.model.hidden = hidden;
    job.model.head_dim = hidden / job.model.heads;
    job.model.ffn_hidden = 4 * hidden;
    return measuring.measure(job, 2, {}).outcome.memory;
  };
  const engine::MemoryOutcome small = memory(64), large = memory(512);
  const double runtime = small.resident_bytes - small.peak_bytes;
  EXPECT_GT(runtime, 0);
  EXPECT_LT(runtime, 50e6);
  EXPECT_GT(large.peak_bytes, 10 * small.peak_bytes);
  EXPECT_NEAR(large.peak_bytes + runtime, large.resident_bytes, 0.05 * large.resident_bytes);
}

// The real worker on the settable capacity of a rank.
TEST_F(Profiling, TheEngineRunsOutOfTheMemoryOfItsRank) {
  const Launcher worker{LauncherKind::local, AUTOTUNE_BINARY_DIR "/autotune-worker"};
  if (!std::ifstream(worker.worker)) GTEST_SKIP() << "this build has no worker";
  Profiler measuring(store_, 0, worker, Host{});
  engine::Job job = small_job(2);
  const Measurement fits = measuring.measure(job, 2, {});
  EXPECT_EQ(fits.outcome.status, OutcomeStatus::ok) << fits.outcome.reason;
  job.memory_limit_bytes = fits.outcome.memory.peak_bytes / 2;
  const Measurement full = measuring.measure(job, 2, {});
  EXPECT_EQ(full.outcome.status, OutcomeStatus::out_of_memory) << full.outcome.reason;
}

}  // namespace
}  // namespace tuner
