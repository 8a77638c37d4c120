// ClusterSpec: the machines, as numbers with provenance: one kind of device, its links, how many.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/precision.h"

namespace tuner {

struct DeviceSpec {
  std::string name;          // "a100-80gb"
  std::string title;         // "NVIDIA A100-SXM4-80GB"
  std::string architecture;  // volta, ampere, ada, hopper, blackwell, cpu
  double memory_bytes = 0;   // usable by programs, not the label
  double memory_bytes_per_second = 0;
  int multiprocessors = 0;  // SMs; cores of a CPU
  // Dense datasheet FLOP/s by precision; 0 = the device has no such arithmetic.
  std::array<double, engine::kPrecisionNames.size()> peak_flops{};
  double runtime_bytes = -1;            // of a rank outside the model's memory; < 0 = the stack's
  std::map<std::string, double> rates;  // measured on this device: before those of the rates file
  std::map<std::string, double> serve_rates;  // the same of those of the serving model
  std::string fingerprint;                    // hash of the environment in which it was calibrated

  bool is_cpu() const { return architecture == "cpu"; }
  double peak(engine::Precision precision) const {
    return peak_flops[static_cast<size_t>(precision)];
  }
};

// Bus bandwidth of large collectives by number of ranks, bytes/s; the convention of nccl-tests, so
// that it compares with the link's own rate.
struct BusBandwidth {
  std::map<int, double> by_ranks;
  // Interpolated in log2(ranks), flat beyond the ends; ranks >= 2.
  double at(int ranks) const;
};

struct Interconnect {
  std::string link;  // "NVLink 3", "PCIe 4"
  int gpus_per_node = 8;
  int domain_gpus = 8;              // GPUs that reach each other over `link`; 72 on NVL72
  BusBandwidth all_reduce;          // within the domain
  BusBandwidth shard;               // reduce-scatter and all-gather within the domain
  double p2p_bytes_per_second = 0;  // one pair within the domain
  double nic_bytes_per_second = 0;  // all NICs of a node, one direction; 0 = no network
  std::string network;              // "8 × HDR InfiniBand, 200 Gb/s"
};

struct ClusterSpec {
  DeviceSpec device;
  Interconnect interconnect;
  std::string system;  // "dgx-a100"
  std::string origin;  // the file it was read from
  int gpus = 1;

  int gpus_per_node() const { return interconnect.gpus_per_node; }
};

// `name` is a GPU ("a100-80gb": in its typical system), a system ("aws-p4d") or the path of a
// user's own FILE.json. Throws InputError. `gpus_per_node` 0 = the system's.
ClusterSpec find_cluster(const std::string& name, int gpus, int gpus_per_node = 0);

// All GPU and system names, sorted.
std::vector<std::string> cluster_names();

nlohmann::json cluster_to_json(const ClusterSpec& cluster);
// Reads what cluster_to_json wrote (reports are shown again from the store).
ClusterSpec cluster_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace tuner
