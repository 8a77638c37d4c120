// The CUDA device's host code on the stand-in: memory, order, capacity, clocks.
#include <gtest/gtest.h>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/phantom_communicator.h"
#include "engine/device/cuda/cuda_device.h"
#include "engine/train/trainer.h"
#include "tests/support/cuda/stand_in.h"
#include "tests/support/tiny_models.h"
#include "tests/support/training_run.h"

namespace engine {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class CudaDeviceTest : public testing::Test {
 protected:
  void TearDown() override {
    cuda_stand_in::set_gpus(1);
    cuda_stand_in::set_memory_bytes(1024 * kMiB);
    EXPECT_EQ(cuda_stand_in::bytes_in_use(), 0);
  }
};

TEST_F(CudaDeviceTest, HasTheCapacityOfItsShareOfTheGpu) {
  cuda_stand_in::set_memory_bytes(100 * kMiB);
  EXPECT_EQ(CudaDevice(0).capacity(), 100 * kMiB);
  CudaDevice device(0, 4);
  EXPECT_EQ(device.capacity(), 25 * kMiB);
  device.set_capacity(30 * kMiB);  // it has no more
  EXPECT_EQ(device.capacity(), 25 * kMiB);
  device.set_capacity(kMiB);
  EXPECT_THROW(Buffer(device, kMiB + 1, MemoryUse::activation), OutOfMemory);
  const Buffer all(device, kMiB, MemoryUse::activation);
  EXPECT_EQ(device.meter().in_use(MemoryUse::activation), kMiB);
}

TEST_F(CudaDeviceTest, IsOutOfMemoryWhenTheGpuIs) {
  cuda_stand_in::set_memory_bytes(10 * kMiB);
  CudaDevice device(0);
  const Buffer others(device, 0, MemoryUse::workspace);
  cuda_stand_in::set_memory_bytes(5 * kMiB);  // another program took some
  EXPECT_THROW(Buffer(device, 6 * kMiB, MemoryUse::parameter), OutOfMemory);
  const Buffer less(device, 4 * kMiB, MemoryUse::parameter);
}

TEST_F(CudaDeviceTest, SaysThatThereIsNoGpu) {
  cuda_stand_in::set_gpus(0);
  EXPECT_EQ(cuda_gpus(), 0);
  try {
    CudaDevice device(0);
    FAIL() << "a device without a GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_NE(std::string(error.what()).find("autotune doctor"), std::string::npos);
  }
}

// What is copied to the device is what stood there at the call, whenever the device comes to it;
// small copies, more than are staged at once, and a large one.
TEST_F(CudaDeviceTest, CopiesWhatTheHostHadAtTheCall) {
  CudaDevice device(0);
  for (const int64_t count : {int64_t{100}, HostStaging::kMostBytes / 4 + 1}) {
    std::vector<Buffer> copies;
    std::vector<int32_t> source(static_cast<size_t>(count));
    const int64_t bytes = count * 4;
    for (int32_t i = 0; i < 40; ++i) {
      copies.emplace_back(device, bytes, MemoryUse::workspace);
      std::fill(source.begin(), source.end(), i);
      device.copy_to_device(copies.back().data(), source.data(), bytes);
    }
    for (int32_t i = 0; i < 40; ++i) {
      device.copy_to_host(source.data(), copies[static_cast<size_t>(i)].data(), bytes);
      EXPECT_EQ(source, std::vector<int32_t>(source.size(), i));
    }
  }
}

TEST_F(CudaDeviceTest, TimesPhasesInTheOrderOfItsWork) {
  CudaDevice device(0);
  const auto clock = device.make_clock();
  for (int turn = 0; turn < 2; ++turn) {
    for (const int milliseconds : {0, 30, 10}) {
      cuda_stand_in::enqueue(device.stream().get(), [milliseconds] {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      });
      clock->mark();
    }
    device.synchronize();
    const std::vector<double> seconds = clock->read();
    ASSERT_EQ(seconds.size(), 2u);
    EXPECT_GE(seconds[0], 0.029);
    EXPECT_GE(seconds[1], 0.009);
  }
}

// Trained with device memory closed to the host: whoever reads it without the device dies.
TEST_F(CudaDeviceTest, TrainsAPhantomWithoutTheHostTouchingItsMemory) {
  for (const ModelSpec& model : {tiny::gpt(), tiny::llama()}) {
    ParallelPlan plan;
    plan.tp = plan.pp = plan.dp = 2;
    plan.sp = true;
    plan.zero = 1;
    plan.gbs = 8;
    const Job job = test_job(model, plan);
    for (const int rank : {0, 7}) {
      cuda_stand_in::close_memory(true);
      {
        CudaDevice device(0);
        PhantomCommunicator ranks(rank, 8, 1, ordered_gpu_memory(device));
        World world(ranks, Grid(plan));
        SyntheticBatches batches(model.vocab, 1);
        Trainer trainer(device, world, job, batches);
        for (int step = 0; step < 2; ++step) trainer.step();
      }
      cuda_stand_in::close_memory(false);
    }
  }
}

TEST(ClosedMemoryDeathTest, KillsTheHostThatTouchesIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        CudaDevice device(0);
        const Buffer buffer(device, 64, MemoryUse::workspace);
        cuda_stand_in::close_memory(true);
        *static_cast<volatile char*>(buffer.data()) = 1;
      },
      "");
}

}  // namespace
}  // namespace engine
