// Which profile a GPU has by the name that CUDA gives it, and what is refused.
#include "tuner/cli/gpu_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace tuner {
namespace {

using nlohmann::json;

constexpr double kGiB = 1 << 30;

TEST(ProfileOfGpu, IsFoundByCudasNames) {
  EXPECT_EQ(profile_of_gpu("NVIDIA A100-SXM4-80GB", 79.1 * kGiB), "a100-80gb");
  EXPECT_EQ(profile_of_gpu("NVIDIA A100-SXM4-40GB", 39.4 * kGiB), "a100-40gb");
  EXPECT_EQ(profile_of_gpu("NVIDIA A100 80GB PCIe", 79.1 * kGiB), "a100-80gb-pcie");
  EXPECT_EQ(profile_of_gpu("NVIDIA H100 80GB HBM3", 79.2 * kGiB), "h100-80gb");
  EXPECT_EQ(profile_of_gpu("NVIDIA H100 PCIe", 79.2 * kGiB), "h100-80gb-pcie");
  EXPECT_EQ(profile_of_gpu("NVIDIA H100 NVL", 93.1 * kGiB), "h100-94gb-nvl");
  EXPECT_EQ(profile_of_gpu("NVIDIA H200", 139.8 * kGiB), "h200-141gb");
  EXPECT_EQ(profile_of_gpu("NVIDIA B200", 178 * kGiB), "b200-180gb");
  EXPECT_EQ(profile_of_gpu("NVIDIA L40S", 44.4 * kGiB), "l40s");
  EXPECT_EQ(profile_of_gpu("NVIDIA GeForce RTX 4090", 23.6 * kGiB), "rtx-4090");
  EXPECT_EQ(profile_of_gpu("NVIDIA GeForce GTX 1080", 8 * kGiB), "");
  EXPECT_EQ(profile_of_gpu("", kGiB), "");
}

json worker_with(int gpus, bool usable = true) {
  json list = json::array();
  for (int i = 0; i < gpus; ++i)
    list.push_back({{"name", "NVIDIA H200"}, {"memory_bytes", 139.8 * kGiB}, {"usable", usable}});
  return {{"backend", {{"gpus", list}}}};
}

std::string refusal(const json& worker, int ranks) {
  try {
    built_in_gpu_cluster(worker, ranks);
  } catch (const engine::Error& error) {
    EXPECT_EQ(error.code(), engine::ExitCode::environment);
    return error.what();
  }
  return "";
}

TEST(GpuCluster, HasTheGpusOfThisMachine) {
  const ClusterSpec cluster = built_in_gpu_cluster(worker_with(4), 2);
  EXPECT_EQ(cluster.gpus, 2);
  EXPECT_EQ(cluster.device.name, "h200-141gb");
  EXPECT_DOUBLE_EQ(cluster.device.memory_bytes, 139.8 * kGiB);
  EXPECT_EQ(usable_gpus(worker_with(4)), 4);
  EXPECT_EQ(usable_gpus(worker_with(4, false)), 0);
}

TEST(GpuCluster, RefusesWhatIsNotThere) {
  EXPECT_THAT(refusal(worker_with(0), 1), testing::HasSubstr("autotune doctor"));
  EXPECT_THAT(refusal(worker_with(2, false), 1), testing::HasSubstr("no usable GPU"));
  EXPECT_THAT(refusal(worker_with(2), 4), testing::HasSubstr("--gpus 4 is more than the 2"));
  json unknown = worker_with(1);
  unknown["backend"]["gpus"][0]["name"] = "Unheard-of 9000X";
  EXPECT_THAT(refusal(unknown, 1), testing::HasSubstr("Unheard-of 9000X"));
}

}  // namespace
}  // namespace tuner
