// MPI ranks: the communicator suite under mpirun, and how a job ends when one rank fails.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Ended {
  int exit_code;
  std::string output;  // of all ranks and of mpirun
};

Ended run_ranks(int ranks, const std::string& mode) {
  // Open MPI's plug-ins are unloaded before leaks are looked for, and take locks in varying order.
  const std::string command =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none "
      "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader ASAN_OPTIONS=detect_leaks=0 "
      "TSAN_OPTIONS=suppressions=" AUTOTUNE_SOURCE_DIR
      "/tests/support/libraries.tsan "
      "timeout 30 " MPIRUN " -n " +
      std::to_string(ranks) + " " MPI_RANKS " " + mode + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  return {WEXITSTATUS(pclose(pipe)), output};
}

// A job that hangs ends with 124, by `timeout`.
void expect_ends(const Ended& ended, int exit_code, const std::string& line) {
  EXPECT_EQ(ended.exit_code, exit_code) << ended.output;
  EXPECT_NE(ended.output.find(line), std::string::npos) << ended.output;
  EXPECT_EQ(ended.output.find("went on"), std::string::npos) << ended.output;
}

TEST(Mpi, SuiteHoldsOnTwoRanks) { expect_ends(run_ranks(2, "suite"), 0, "hold on 2 ranks"); }
TEST(Mpi, SuiteHoldsOnFourRanks) { expect_ends(run_ranks(4, "suite"), 0, "hold on 4 ranks"); }

TEST(Mpi, AnExceptionEndsTheJobWithItsCause) {
  expect_ends(run_ranks(3, "throw"), 1, "rank 0: boom");
}

TEST(Mpi, AnErrorEndsTheJobWithItsExitCode) {
  expect_ends(run_ranks(2, "error"), 6, "rank 0: disk full");
}

TEST(Mpi, AKilledRankEndsTheJob) { expect_ends(run_ranks(3, "kill"), 128 + 9, "signal 9"); }

TEST(Mpi, AHangingRankEndsTheJobAfterTheTimeout) {
  expect_ends(run_ranks(2, "timeout"), 7, "rank 1: receive waited longer than 0.3 s");
}

TEST(Mpi, MessagesAreDeliveredBeforeTheEnd) {
  expect_ends(run_ranks(2, "undelivered"), 0, "received");
}

TEST(Mpi, AMessageOfAnotherSizeIsAnError) {
  expect_ends(run_ranks(2, "mismatch"), 1, "a message of 4 f32, was sent 3");
}

}  // namespace
