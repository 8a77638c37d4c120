// NCCL ranks on the stand-in: the communicator suite, host and device payloads, lost ranks.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/comm/local_communicator.h"
#include "engine/comm/nccl/run_nccl.h"
#include "engine/tensor/tensor.h"
#include "tests/support/communicator_conformance.h"
#include "tests/support/cuda/stand_in.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace engine {
namespace {

// The executable pretends to have as many GPUs as a test has ranks.
const bool kGpus = [] {
  cuda_stand_in::set_gpus(8);
  return true;
}();

class NcclConformance : public testing::TestWithParam<std::tuple<size_t, int>> {};

TEST_P(NcclConformance, Holds) {
  const auto [index, ranks] = GetParam();
  const conformance::Case& test = conformance::cases()[index];
  if (test.needs != conformance::Promise::none)
    GTEST_SKIP() << "NCCL promises neither the order of additions nor free sends";
  test_ranks::run(ranks, [&](Device&, Communicator& comm) { test.check(comm); });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclConformance,
                         testing::Combine(testing::Range(size_t{0}, conformance::cases().size()),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return conformance::cases()[std::get<0>(instance.param)].name + "_on_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

// What the device computes before a verb is in it, and what it computes behind sees the result;
// nobody waits in between.
TEST(NcclOrder, FollowsTheDevicesWork) {
  test_ranks::run(4, [](Device& device, Communicator& ranks) {
    constexpr int64_t kCount = 5000;
    Tensor data(device, {1, kCount}, DType::f32, MemoryUse::workspace);
    kernels::Kernels& kernels = device.kernels();
    const Payload payload(data.data(), kCount, Element::f32);
    kernels.fill(data, ranks.rank());
    for (int turn = 0; turn < 20; ++turn) {
      ranks.all_reduce(payload);
      kernels.scale(data, 0.25);
    }
    const int next = (ranks.rank() + 1) % 4, previous = (ranks.rank() + 3) % 4;
    for (int turn = 0; turn < 20; ++turn) {
      kernels.fill(data, turn);
      ranks.send(payload, next);
      kernels.fill(data, -1);  // the message is a copy
      ranks.receive(payload, previous);
      std::vector<float> host(kCount);
      device.copy_to_host(host.data(), data.data(), data.bytes());
      for (const float value : host) expect(value == static_cast<float>(turn), "this message");
    }
  });
}

// The device goes on beside overlapped verbs: rank 0's is idle before rank 1 has come.
TEST(NcclOrder, LetsTheDeviceGoOnUntilTheEnd) {
  run_local(2, [](Communicator& others) {
    CudaDevice device(others.rank());
    NcclOptions options;
    options.timeout = std::chrono::seconds(20);
    run_nccl(device, others, options, [&](Communicator& ranks) {
      constexpr int64_t kCount = 5000;
      Tensor data(device, {1, kCount}, DType::f32, MemoryUse::workspace);
      Tensor beside(device, {1, kCount}, DType::f32, MemoryUse::workspace);
      const Payload payload(data.data(), kCount, Element::f32);
      device.kernels().fill(data, 1);
      ranks.barrier();  // the first one connects them, for which the host waits
      if (others.rank() == 1) others.barrier();
      ranks.begin_overlap();
      for (int turn = 0; turn < 3; ++turn) ranks.all_reduce(payload);
      device.kernels().fill(beside, 5);
      device.synchronize();
      if (others.rank() == 0) others.barrier();
      ranks.end_overlap();
      device.kernels().accumulate(data, beside);
      std::vector<float> host(kCount);
      device.copy_to_host(host.data(), beside.data(), beside.bytes());
      for (const float value : host) expect(value == 13, "5 and three times the double of 1");
    });
  });
}

// Ranks that have never talked all send before they receive, round the ring and back.
TEST(NcclOrder, LetsRanksThatMeetSendFirst) {
  test_ranks::run(4, [](Device& device, Communicator& ranks) {
    Tensor data(device, {1, 100}, DType::f32, MemoryUse::workspace);
    const Payload payload(data.data(), 100, Element::f32);
    const int next = (ranks.rank() + 1) % 4, previous = (ranks.rank() + 3) % 4;
    for (const auto& [to, from] : {std::pair{next, previous}, {previous, next}}) {
      device.kernels().fill(data, ranks.rank());
      ranks.send(payload, to);
      ranks.receive(payload, from);
      std::vector<float> host(100);
      device.copy_to_host(host.data(), data.data(), data.bytes());
      for (const float value : host) expect(value == static_cast<float>(from), "of that rank");
    }
  });
}

class LostRank : public testing::Test {
 protected:
  void TearDown() override { cuda_stand_in::lose_rank(-1); }
  static NcclOptions impatient() {
    NcclOptions options;
    options.timeout = std::chrono::milliseconds(300);
    return options;
  }
};

TEST_F(LostRank, EndsTheOthersInsteadOfAHang) {
  std::atomic<int> ended = 0;
  run_local(3, [&](Communicator& others) {
    CudaDevice device(others.rank());
    try {
      run_nccl(device, others, impatient(), [&](Communicator& ranks) {
        Tensor data(device, {1, 100}, DType::f32, MemoryUse::workspace);
        device.kernels().fill(data, 1);
        ranks.all_reduce({data.data(), 100, Element::f32});
        device.synchronize();
        if (ranks.rank() == 2) cuda_stand_in::lose_rank(2);
        ranks.barrier();
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_NE(std::string(error.what()).find("waited longer than 0.3 s"), std::string::npos)
          << error.what();
      ++ended;
    }
  });
  EXPECT_GE(ended, 2);
}

TEST_F(LostRank, EndsThoseThatWaitForWhatOverlaps) {
  std::atomic<int> ended = 0;
  run_local(3, [&](Communicator& others) {
    CudaDevice device(others.rank());
    try {
      run_nccl(device, others, impatient(), [&](Communicator& ranks) {
        Tensor data(device, {1, 100}, DType::f32, MemoryUse::workspace);
        device.kernels().fill(data, 1);
        ranks.barrier();
        if (ranks.rank() == 2) cuda_stand_in::lose_rank(2);
        ranks.begin_overlap();
        ranks.all_reduce({data.data(), 100, Element::f32});
        ranks.end_overlap();
        device.synchronize();
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      ++ended;
    }
  });
  EXPECT_GE(ended, 2);
}

// What the first communicator is to do waits for what hangs in the second.
TEST_F(LostRank, EndsWhatWaitsForAnotherCommunicator) {
  std::atomic<int> ended = 0;
  run_local(3, [&](Communicator& others) {
    CudaDevice device(others.rank());
    try {
      run_nccl(device, others, impatient(), [&](Communicator& ranks) {
        const auto group = ranks.split(std::vector{0, 1, 2});
        Tensor data(device, {1, 100}, DType::f32, MemoryUse::workspace);
        device.kernels().fill(data, 1);
        const Payload payload(data.data(), 100, Element::f32);
        for (const bool lost : {false, true}) {
          if (lost && ranks.rank() == 2) cuda_stand_in::lose_rank(2);
          group->all_reduce(payload);
          ranks.all_reduce(payload);
          others.barrier();
        }
        device.synchronize();
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      ++ended;
    }
  });
  EXPECT_GE(ended, 2);
}

std::string cause_of(int size, const std::function<void(Device&, Communicator&)>& body) {
  try {
    test_ranks::run(size, body);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing thrown";
}

// The failure of one thread ends the others at once, long before their timeout.
TEST(NcclThreads, EndWhenOneThrows) {
  const auto start = std::chrono::steady_clock::now();
  const auto fail_on_one = [](Device& device, Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 1) throw std::runtime_error("boom");
    std::vector<float> data(100);
    ranks.all_reduce(data);
    device.synchronize();
  };
  EXPECT_EQ(cause_of(3, fail_on_one), "boom");
  const auto fail_beside_overlap = [](Device& device, Communicator& ranks) {
    Tensor data(device, {1, 100}, DType::f32, MemoryUse::workspace);
    device.kernels().fill(data, 1);
    ranks.barrier();
    ranks.begin_overlap();
    if (ranks.rank() == 1) throw std::runtime_error("boom");
    ranks.all_reduce({data.data(), 100, Element::f32});
    ranks.end_overlap();
    device.synchronize();
  };
  EXPECT_EQ(cause_of(3, fail_beside_overlap), "boom");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST(NcclFile, ConnectsProcessesThatShareAFileOnly) {
  const TemporaryFolder folder;
  const std::string path = folder / "id";
  std::vector<std::jthread> processes;
  std::atomic<int> sum = 0;
  for (int rank = 0; rank < 3; ++rank)
    processes.emplace_back([&, rank] {
      CudaDevice device(rank);
      run_nccl(device, rank, 3, path, {}, [&](Communicator& ranks) {
        std::vector<int32_t> data = {rank + 1};
        ranks.all_reduce(data);
        sum += data[0];
      });
    });
  processes.clear();
  EXPECT_EQ(sum, 18);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(NcclFile, RefusesAFileOfAnotherRun) {
  const TemporaryFolder folder;
  const std::string path = folder / "id";
  std::ofstream(path) << "old";
  CudaDevice device(0);
  EXPECT_THROW(run_nccl(device, 0, 1, path, {}, [](Communicator&) {}), Error);
  EXPECT_THROW(run_nccl(device, 1, 2, path, {}, [](Communicator&) {}), Error);
}

}  // namespace
}  // namespace engine
