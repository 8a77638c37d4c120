// The machines of a published run, from the text that describes them.
#include "tuner/validate/published_cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

namespace tuner {
namespace {

// Bytes/s of a node, one direction: the last "N x … R Gb/s" or "R Gbps".
std::optional<double> stated_network(const std::string& text) {
  constexpr size_t kLongest = 1000;
  static const std::regex rate(R"((?:(\d{1,3})\s*x(?:[^;,:]*\s)?)?(\d{1,6})\s*Gb(?:/s|ps|/Sec))");
  if (text.size() > kLongest) return std::nullopt;
  std::optional<double> stated;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), rate); it != std::sregex_iterator();
       ++it) {
    const double ports = (*it)[1].matched ? std::stod((*it)[1].str()) : 1;
    stated = ports * std::stod((*it)[2].str()) / 8 * 1e9;
  }
  return stated;
}

bool names_fabric(const std::string& text, const std::string& fabric) {
  return text.find(fabric) != std::string::npos;
}

// How far a system is from the statement: the ratio of the rates, and whether the fabric is
// another.
double distance(const ClusterSpec& cluster, double stated, const std::string& text) {
  constexpr double kOtherFabric = 0.02;
  double sum =
      std::abs(std::log(std::max(1.0, cluster.interconnect.nic_bytes_per_second) / stated));
  for (const char* fabric : {"Omni-Path", "EFA", "RoCE"})
    if (names_fabric(text, fabric) != names_fabric(cluster.interconnect.network, fabric))
      sum += kOtherFabric;
  return sum;
}

const std::map<std::string, ClusterSpec>& all_systems() {
  static const std::map<std::string, ClusterSpec> systems = [] {
    std::map<std::string, ClusterSpec> found;
    for (const std::string& name : cluster_names()) found.emplace(name, find_cluster(name, 1));
    return found;
  }();
  return systems;
}

}  // namespace

ClusterSpec published_cluster(const std::string& gpu, int gpus, const std::string& interconnect) {
  constexpr double kClose = 0.1;
  ClusterSpec typical = find_cluster(gpu, gpus);
  const auto stated = stated_network(interconnect);
  if (!stated || distance(typical, *stated, interconnect) < kClose) return typical;
  const ClusterSpec* best = nullptr;
  double nearest = kClose;
  for (const auto& [name, cluster] : all_systems()) {
    const double far = distance(cluster, *stated, interconnect);
    if (cluster.device.name != typical.device.name || cluster.system != name || far >= nearest)
      continue;
    best = &cluster;
    nearest = far;
  }
  if (!best) return typical;
  ClusterSpec chosen = *best;
  chosen.gpus = gpus;
  return chosen;
}

}  // namespace tuner
