// Chooses the profile of this machine.
#include "tuner/cli/host_cluster.h"

#include <algorithm>

#include "tuner/model/data_files.h"

namespace tuner {
namespace {

constexpr double kUsableMemory = 0.9;  // the rest is the system's
constexpr double kNetwork = 1.25e9;    // bytes/s between nodes that nobody has measured

bool is_calibrated() {
  const auto names = data_file_names("profiles/gpus");
  return std::find(names.begin(), names.end(), kHostProfile) != names.end();
}

}  // namespace

HostCluster host_cluster(const Host& host, int ranks, const std::string& environment,
                         int ranks_per_node, bool threads) {
  HostCluster result;
  const bool calibrated = is_calibrated();
  const int here = ranks_per_node > 0 ? std::min(ranks, ranks_per_node) : ranks;
  result.cluster = find_cluster(calibrated ? kHostProfile : "cpu", here);
  result.cluster.gpus = ranks;
  DeviceSpec& device = result.cluster.device;
  device.memory_bytes = kUsableMemory * host.memory_bytes / here;
  device.multiprocessors = host.cores;
  if (threads && device.runtime_bytes > 0) device.runtime_bytes /= here;
  if (!calibrated)
    result.remark =
        "this machine is not calibrated: predictions before the measurements are rough; "
        "`autotune calibrate` measures it";
  else if (!environment.empty() && device.fingerprint != environment)
    result.remark =
        "the profile of this machine is stale: hardware, system or worker have changed since; "
        "`autotune calibrate` measures it again";
  else
    result.is_current = true;
  if (ranks > here) {
    Interconnect& links = result.cluster.interconnect;
    links.gpus_per_node = links.domain_gpus = here;
    links.nic_bytes_per_second = kNetwork;
    links.network = "10 Gb/s, assumed";
  }
  return result;
}

}  // namespace tuner
