// Finding a cluster by the name of its GPU, of its system, or in a file.
#include "tuner/model/cluster_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/model/cluster_json.h"
#include "tuner/model/data_files.h"

namespace tuner {
namespace {

using engine::Json;
using engine::ObjectReader;
using engine::Problems;

constexpr int kMostGpus = 1'000'000;
constexpr int kMostGpusPerNode = 1024;
constexpr auto kGpuFolder = "profiles/gpus";
constexpr auto kSystemFolder = "profiles/systems";

bool same_name(const std::string& a, const std::string& b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool is_listed(const std::string& folder, const std::string& name) {
  return std::ranges::any_of(data_file_names(folder),
                             [&](const std::string& known) { return same_name(known, name); });
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

void require_interconnect(ObjectReader& file) {
  if (!file.has("interconnect")) file.problem("interconnect", "is missing");
}

DeviceSpec device_of(const DataFile& data) {
  Problems problems(data.origin);
  const Json json = engine::parse_json(data.text, data.origin);
  ObjectReader file(json, "", problems);
  DeviceSpec device = read_device(file);
  file.value("system");
  file.value("interconnect");
  file.finish();
  problems.throw_if_any();
  return device;
}

struct System {
  std::string name;
  std::string gpu;
  Interconnect interconnect;
};

System system_of(const DataFile& data) {
  Problems problems(data.origin);
  const Json json = engine::parse_json(data.text, data.origin);
  ObjectReader file(json, "", problems);
  System system;
  system.name = file.text("name");
  file.text("title", "");
  system.gpu = file.text("gpu");
  require_interconnect(file);
  system.interconnect = read_interconnect(file.object("interconnect"));
  file.finish();
  problems.throw_if_any();
  return system;
}

// A GPU file stands alone with an inline interconnect, or names the system it usually is in.
ClusterSpec from_gpu_file(const DataFile& data) {
  Problems problems(data.origin);
  const Json json = engine::parse_json(data.text, data.origin);
  ObjectReader file(json, "", problems);
  ClusterSpec cluster;
  cluster.origin = data.origin;
  cluster.device = read_device(file);
  cluster.system = file.text("system", "");
  if (file.has("interconnect")) {
    cluster.interconnect = read_interconnect(file.object("interconnect"));
  } else if (cluster.system.empty()) {
    file.problem("interconnect", "is missing; describe the links, or name a \"system\"");
  }
  file.finish();
  problems.throw_if_any();
  if (!file.has("interconnect")) {
    const DataFile system = find_data_file(kSystemFolder, cluster.system, "system");
    cluster.interconnect = system_of(system).interconnect;
    cluster.origin += " with " + system.origin;
  }
  return cluster;
}

ClusterSpec from_system_file(const DataFile& data) {
  System system = system_of(data);
  const DataFile gpu = find_data_file(kGpuFolder, system.gpu, "GPU");
  ClusterSpec cluster;
  cluster.device = device_of(gpu);
  cluster.interconnect = std::move(system.interconnect);
  cluster.system = system.name;
  cluster.origin = data.origin + " with " + gpu.origin;
  return cluster;
}

ClusterSpec from_file(const DataFile& data) {
  const Json json = engine::parse_json(data.text, data.origin);
  return json.is_object() && json.contains("gpu") ? from_system_file(data) : from_gpu_file(data);
}

ClusterSpec read_cluster(const std::string& name) {
  if (is_path(name)) return from_file({name, engine::read_text_file(name)});
  if (is_listed(kGpuFolder, name)) return from_file(find_data_file(kGpuFolder, name, "GPU"));
  if (is_listed(kSystemFolder, name))
    return from_file(find_data_file(kSystemFolder, name, "system"));
  throw engine::InputError(engine::unknown_name(
      "GPU or system", name, cluster_names(),
      "give a known one such as a100-80gb or dgx-h100, or the path of a FILE.json"));
}

// Fewer or more devices share a proportional part of the network cards.
void set_gpus_per_node(Interconnect& links, int gpus_per_node) {
  links.nic_bytes_per_second *= static_cast<double>(gpus_per_node) / links.gpus_per_node;
  const bool one_node = links.domain_gpus <= links.gpus_per_node;
  if (one_node) links.domain_gpus = std::min(links.domain_gpus, gpus_per_node);
  links.gpus_per_node = gpus_per_node;
}

}  // namespace

double BusBandwidth::at(int ranks) const {
  engine::expect(ranks >= 2 && !by_ranks.empty(), "a collective of at least two ranks on a link");
  const auto above = by_ranks.lower_bound(ranks);
  if (above == by_ranks.end()) return by_ranks.rbegin()->second;
  if (above->first == ranks || above == by_ranks.begin()) return above->second;
  const auto below = std::prev(above);
  const double part = std::log2(static_cast<double>(ranks) / below->first) /
                      std::log2(static_cast<double>(above->first) / below->first);
  return below->second + part * (above->second - below->second);
}

ClusterSpec find_cluster(const std::string& name, int gpus, int gpus_per_node) {
  std::vector<std::string> problems;
  if (gpus < 1 || gpus > kMostGpus)
    problems.push_back(
        fmt::format("the number of GPUs must be from 1 to {}, not {}", kMostGpus, gpus));
  if (gpus_per_node < 0 || gpus_per_node > kMostGpusPerNode)
    problems.push_back(fmt::format("the GPUs of a node must be from 1 to {}, not {}",
                                   kMostGpusPerNode, gpus_per_node));
  ClusterSpec cluster;
  try {
    cluster = read_cluster(name);
  } catch (const engine::InputError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  if (!problems.empty()) throw engine::InputError(problems);
  cluster.gpus = gpus;
  if (gpus_per_node > 0) set_gpus_per_node(cluster.interconnect, gpus_per_node);
  const Interconnect& links = cluster.interconnect;
  if (links.nic_bytes_per_second == 0 && gpus > links.domain_gpus)
    throw engine::InputError(
        fmt::format("{} has no network between its nodes, so {} GPUs cannot work together; take at "
                    "most {}, or a profile with nic_bytes_per_second",
                    name, gpus, links.domain_gpus));
  return cluster;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names = data_file_names(kGpuFolder);
  const std::vector<std::string> systems = data_file_names(kSystemFolder);
  names.insert(names.end(), systems.begin(), systems.end());
  std::ranges::sort(names);
  return names;
}

Json cluster_to_json(const ClusterSpec& cluster) {
  return {{"gpus", cluster.gpus},
          {"system", cluster.system},
          {"origin", cluster.origin},
          {"device", device_to_json(cluster.device)},
          {"interconnect", interconnect_to_json(cluster.interconnect)}};
}

ClusterSpec cluster_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  ClusterSpec cluster;
  cluster.gpus = static_cast<int>(reader.integer("gpus", {1, kMostGpus}));
  cluster.system = reader.text("system", "");
  cluster.origin = reader.text("origin", "");
  ObjectReader device = reader.object("device");
  cluster.device = read_device(device);
  device.finish();
  require_interconnect(reader);
  cluster.interconnect = read_interconnect(reader.object("interconnect"));
  reader.finish();
  problems.throw_if_any();
  return cluster;
}

}  // namespace tuner
