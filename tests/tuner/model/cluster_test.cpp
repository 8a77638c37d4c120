// Machines: every built-in file is sound and says where its numbers are from; users' files are
// checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::InputError;
using engine::Json;
using engine::Precision;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string error_of(const std::string& name, int gpus = 8, int gpus_per_node = 0) {
  try {
    find_cluster(name, gpus, gpus_per_node);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// Every number below `json` stands in an object with a kind and a source.
void expect_sourced(const Json& json, const std::string& place) {
  const std::set<std::string> counts = {"gpus_per_node", "domain_gpus"};
  for (const auto& [key, value] : json.items()) {
    const std::string here = place + "." + key;
    EXPECT_TRUE(!value.is_number() || counts.contains(key)) << here << " has no source";
    if (value.is_object() && value.contains("value")) {
      EXPECT_TRUE(value.contains("kind") && value.contains("source")) << here;
    } else if (value.is_object()) {
      expect_sourced(value, here);
    }
  }
}

TEST(Cluster, EveryBuiltInFileIsSoundNamedAsItsFileAndSourced) {
  int files = 0;
  for (const EmbeddedFile& file : embedded_files()) {
    const std::string name(file.name);
    if (!name.starts_with("profiles/gpus/") && !name.starts_with("profiles/systems/")) continue;
    ++files;
    const Json json = engine::parse_json(file.text, name);
    const std::string own = json.at("name").get<std::string>();
    EXPECT_TRUE(name.ends_with("/" + own + ".json")) << name << " is named " << own;
    expect_sourced(json, name);
    const ClusterSpec cluster = find_cluster(own, 16);
    EXPECT_GT(cluster.interconnect.all_reduce.at(8), 0) << name;
    EXPECT_GE(cluster.interconnect.shard.by_ranks.size(), 2u) << name;
    EXPECT_FALSE(cluster.system.empty()) << name;
  }
  EXPECT_GE(files, 40);
}

TEST(Cluster, PublishedGpusHaveTheirNumbers) {
  struct Case {
    const char* name;
    double gib, bf16, fp8, nvfp4;
    int node, domain;
    double nic;
  };
  for (const Case& expected : {
           Case{"v100-32gb", 31.74, 0, 0, 0, 8, 8, 50e9},
           Case{"v100-16gb", 15.77, 0, 0, 0, 8, 8, 50e9},
           Case{"a100-40gb", 39.4, 312e12, 0, 0, 8, 8, 200e9},
           Case{"a100-80gb", 79.15, 312e12, 0, 0, 8, 8, 200e9},
           Case{"h100-80gb", 79.11, 989.4e12, 1978.9e12, 0, 8, 8, 400e9},
           Case{"h800-80gb", 79.11, 989.4e12, 1978.9e12, 0, 8, 8, 400e9},
           Case{"h200-141gb", 139.8, 989.4e12, 1978.9e12, 0, 8, 8, 400e9},
           Case{"b200-180gb", 178.3, 2250e12, 4500e12, 9000e12, 8, 8, 400e9},
           Case{"b300", 267.6, 2250e12, 4500e12, 12.6e15, 8, 8, 800e9},
           Case{"gb200", 184, 2500e12, 5000e12, 10e15, 4, 72, 200e9},
           Case{"gb300", 276, 2500e12, 5000e12, 15e15, 4, 72, 400e9},
       }) {
    const ClusterSpec cluster = find_cluster(expected.name, 64);
    const DeviceSpec& device = cluster.device;
    EXPECT_EQ(device.name, expected.name);
    EXPECT_NEAR(device.memory_bytes / kGiB, expected.gib, 0.01) << expected.name;
    EXPECT_EQ(device.peak(Precision::bf16), expected.bf16) << expected.name;
    EXPECT_EQ(device.peak(Precision::fp8), expected.fp8) << expected.name;
    EXPECT_EQ(device.peak(Precision::mxfp8), expected.nvfp4 > 0 ? expected.fp8 : 0)
        << expected.name;
    EXPECT_EQ(device.peak(Precision::nvfp4), expected.nvfp4) << expected.name;
    EXPECT_EQ(cluster.gpus_per_node(), expected.node) << expected.name;
    EXPECT_EQ(cluster.interconnect.domain_gpus, expected.domain) << expected.name;
    EXPECT_EQ(cluster.interconnect.nic_bytes_per_second, expected.nic) << expected.name;
    EXPECT_FALSE(device.is_cpu());
  }
  EXPECT_TRUE(find_cluster("cpu", 2).device.is_cpu());
}

TEST(Cluster, SystemsDifferInTheirNetworkAndNameTheirGpu) {
  const ClusterSpec aws = find_cluster("aws-p4d", 16);
  EXPECT_EQ(aws.device.name, "a100-40gb");
  EXPECT_EQ(aws.interconnect.nic_bytes_per_second, 50e9);
  EXPECT_THAT(aws.origin, HasSubstr("profiles/systems/aws-p4d.json"));
  EXPECT_THAT(aws.origin, HasSubstr("profiles/gpus/a100-40gb.json"));
  EXPECT_EQ(find_cluster("JEAN-ZAY-A100", 8).interconnect.nic_bytes_per_second, 50e9);
  EXPECT_EQ(find_cluster("vtrain-a100", 8).interconnect.nic_bytes_per_second, 100e9);
  EXPECT_EQ(find_cluster("A100-80GB", 8).system, "dgx-a100");
}

TEST(Cluster, BusBandwidthIsInterpolatedInLogRanksAndFlatBeyond) {
  const BusBandwidth bus{{{2, 100.0}, {8, 300.0}}};
  EXPECT_DOUBLE_EQ(bus.at(2), 100);
  EXPECT_DOUBLE_EQ(bus.at(4), 200);
  EXPECT_DOUBLE_EQ(bus.at(8), 300);
  EXPECT_DOUBLE_EQ(bus.at(64), 300);
  EXPECT_DOUBLE_EQ((BusBandwidth{{{4, 50.0}}}.at(2)), 50);
  EXPECT_THROW(bus.at(1), std::logic_error);
}

TEST(Cluster, GpusPerNodeScalesTheNetworkAndBoundsTheDomain) {
  const ClusterSpec half = find_cluster("dgx-h100", 16, 4);
  EXPECT_EQ(half.gpus_per_node(), 4);
  EXPECT_EQ(half.interconnect.domain_gpus, 4);
  EXPECT_EQ(half.interconnect.nic_bytes_per_second, 200e9);
  const ClusterSpec twice = find_cluster("dgx-h100", 16, 16);
  EXPECT_EQ(twice.interconnect.domain_gpus, 8);
  EXPECT_EQ(twice.interconnect.nic_bytes_per_second, 800e9);
  const ClusterSpec rack = find_cluster("gb200-nvl72", 72, 2);
  EXPECT_EQ(rack.interconnect.domain_gpus, 72);
  EXPECT_EQ(rack.interconnect.nic_bytes_per_second, 100e9);
}

TEST(Cluster, BadRequestsNameWhatToDo) {
  EXPECT_THAT(error_of("a100-80g"), HasSubstr("did you mean a100-80gb"));
  EXPECT_THAT(error_of("dgx-a10"), HasSubstr("dgx-a100"));
  EXPECT_THAT(error_of("tpu-v5p-quartz"), HasSubstr("FILE.json"));
  EXPECT_THAT(error_of("a100-80gb", 0), HasSubstr("from 1 to 1000000, not 0"));
  EXPECT_THAT(error_of("a100-80gb", 1'000'001), HasSubstr("not 1000001"));
  EXPECT_THAT(error_of("a100-80gb", 8, -1), HasSubstr("not -1"));
  const std::string all = error_of("nonsense-gpu", -3, 5000);
  EXPECT_THAT(all, HasSubstr("not -3"));
  EXPECT_THAT(all, HasSubstr("not 5000"));
  EXPECT_THAT(all, HasSubstr("nonsense-gpu"));
  EXPECT_THAT(error_of("/no/such/file.json"), HasSubstr("no such file"));
  EXPECT_EQ(find_cluster("a100-80gb", 1'000'000).gpus, 1'000'000);
}

// A user's GPU file with the links inside; `change` is merged in (null removes a member).
std::string user_gpu(const std::string& name, const Json& change) {
  Json json = Json::parse(R"({
    "name": "mine", "architecture": "hopper", "memory_bytes": 84e9, "memory_bytes_per_second": 3e12,
    "multiprocessors": {"value": 132, "kind": "measured", "source": "deviceQuery"},
    "peak_flops": {"bf16": 900e12},
    "interconnect": {"link": "NVLink 4", "gpus_per_node": 4,
      "all_reduce_bytes_per_second": {"2": 300e9, "4": 350e9},
      "shard_bytes_per_second": {"2": 250e9}, "p2p_bytes_per_second": 390e9,
      "nic_bytes_per_second": 100e9}})");
  json.merge_patch(change);
  return write_file(name, json.dump());
}

TEST(Cluster, AUsersFileMayHoldPlainNumbersAndItsOwnLinks) {
  const std::string path = user_gpu("mine.json", Json::object());
  const ClusterSpec cluster = find_cluster(path, 16);
  EXPECT_EQ(cluster.device.name, "mine");
  EXPECT_EQ(cluster.device.multiprocessors, 132);
  EXPECT_EQ(cluster.interconnect.domain_gpus, 4);
  EXPECT_EQ(cluster.interconnect.all_reduce.at(4), 350e9);
  EXPECT_EQ(cluster.origin, path);
  const ClusterSpec in_system = find_cluster(
      user_gpu("mine2.json", {{"interconnect", nullptr}, {"system", "Azure-ND-H100"}}), 16);
  EXPECT_EQ(in_system.interconnect.nic_bytes_per_second, 400e9);
}

TEST(Cluster, TheExampleOfTheReadmeWorks) {
  const std::string readme =
      engine::read_text_file(std::string(AUTOTUNE_SOURCE_DIR) + "/profiles/README.md");
  const std::string fence = "```json\n";
  const size_t begin = readme.find(fence) + fence.size();
  const std::string example = readme.substr(begin, readme.find("```", begin) - begin);
  const ClusterSpec cluster = find_cluster(write_file("example.json", example), 16);
  EXPECT_EQ(cluster.device.name, "my-gpu");
  EXPECT_EQ(cluster.interconnect.all_reduce.at(8), 445e9);
}

TEST(Cluster, ASystemFileOfTheUserNamesAKnownGpu) {
  Json system = {{"name", "my-cluster"}, {"gpu", "a100-80gb"}};
  system["interconnect"] = cluster_to_json(find_cluster("dgx-a100", 8)).at("interconnect");
  system["interconnect"]["nic_bytes_per_second"] = 12.5e9;
  const ClusterSpec cluster = find_cluster(write_file("system.json", system.dump()), 16);
  EXPECT_EQ(cluster.system, "my-cluster");
  EXPECT_EQ(cluster.device.name, "a100-80gb");
  EXPECT_EQ(cluster.interconnect.nic_bytes_per_second, 12.5e9);
  system["gpu"] = "a100-80x";
  EXPECT_THAT(error_of(write_file("system2.json", system.dump())), HasSubstr("a100-80gb"));
}

TEST(Cluster, EachBadNumberIsNamed) {
  struct Case {
    Json change;
    const char* place;
  };
  const std::vector<Case> cases = {
      {{{"memory_bytes", 80}}, "memory_bytes"},
      {{{"memory_bytes", -84e9}}, "memory_bytes"},
      {{{"memory_bytes", "80GB"}}, "memory_bytes"},
      {{{"memory_bytes_per_second", nullptr}}, "memory_bytes_per_second"},
      {{{"multiprocessors", 0}}, "multiprocessors"},
      {{{"multiprocessors", {{"kind", "guess"}}}}, "multiprocessors.kind"},
      {{{"multiprocessors", {{"source", ""}}}}, "multiprocessors.source"},
      {{{"peak_flops", {{"bf16", 312}}}}, "peak_flops.bf16"},
      {{{"peak_flops", {{"bf16", nullptr}}}}, "peak_flops"},
      {{{"peak_flops", {{"fp9", 1e15}}}}, "fp9"},
      {{{"architecture", "pascal"}}, "architecture"},
      {{{"interconnect", nullptr}}, "interconnect"},
      {{{"interconnect", 3}}, "interconnect"},
      {{{"interconnect", {{"gpus_per_node", 0}}}}, "interconnect.gpus_per_node"},
      {{{"interconnect", {{"nic_bytes_per_second", 100}}}}, "interconnect.nic_bytes_per_second"},
      {{{"interconnect", {{"nic_bytes_per_second", -1}}}}, "interconnect.nic_bytes_per_second"},
      {{{"interconnect", {{"all_reduce_bytes_per_second", {{"1", 1e11}}}}}},
       "interconnect.all_reduce_bytes_per_second.1"},
      {{{"interconnect", {{"shard_bytes_per_second", {{"2", nullptr}}}}}},
       "interconnect.shard_bytes_per_second"},
      {{{"memory", 3}}, "memory"},
  };
  for (const Case& bad : cases)
    EXPECT_THAT(error_of(user_gpu("bad.json", bad.change)), HasSubstr(bad.place)) << bad.change;
}

TEST(Cluster, NanIsMissingAndAllProblemsComeAtOnce) {
  const std::string error = error_of(write_file(
      "nan.json",
      R"({"name": "x", "architecture": "hopper", "memory_bytes": NaN, "multiprocessors": 1.5})"));
  for (const char* place : {"memory_bytes: is missing", "memory_bytes_per_second: is missing",
                            "multiprocessors", "peak_flops", "interconnect"})
    EXPECT_THAT(error, HasSubstr(place));
  EXPECT_THAT(error_of(write_file("list.json", "[]")), HasSubstr("must be an object"));
  EXPECT_THAT(error_of(write_file("broken.json", "{")), HasSubstr("not valid JSON"));
}

TEST(Cluster, JsonRoundTripKeepsEverything) {
  for (const std::string& name : cluster_names()) {
    const Json json = cluster_to_json(find_cluster(name, 24));
    const ClusterSpec again = cluster_from_json(json, "stored");
    EXPECT_EQ(cluster_to_json(again), json) << name;
    EXPECT_EQ(again.gpus, 24);
    EXPECT_EQ(again.device.peak_flops, find_cluster(name, 1).device.peak_flops);
  }
  EXPECT_THROW(cluster_from_json(Json::object(), "stored"), InputError);
}

TEST(Cluster, NamesAreSortedAndHoldGpusAndSystems) {
  const std::vector<std::string> names = cluster_names();
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_THAT(names, Contains("gb300-nvl72"));
  EXPECT_THAT(names, Contains("rtx-4090"));
}

}  // namespace
}  // namespace tuner
