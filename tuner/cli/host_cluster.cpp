// Chooses the profile of this machine.
#include "tuner/cli/host_cluster.h"

#include <algorithm>

#include "tuner/model/data_files.h"

namespace tuner {
namespace {

constexpr double kUsableMemory = 0.9;  // the rest is the system's

bool is_calibrated() {
  const auto names = data_file_names("profiles/gpus");
  return std::find(names.begin(), names.end(), kHostProfile) != names.end();
}

}  // namespace

HostCluster host_cluster(const Host& host, int ranks, const std::string& environment) {
  HostCluster result;
  const bool calibrated = is_calibrated();
  result.cluster = find_cluster(calibrated ? kHostProfile : "cpu", ranks);
  DeviceSpec& device = result.cluster.device;
  device.memory_bytes = kUsableMemory * host.memory_bytes / ranks;
  device.multiprocessors = host.cores;
  if (!calibrated)
    result.remark =
        "this machine is not calibrated: predictions before the measurements are rough; "
        "`autotune calibrate` measures it";
  else if (!environment.empty() && device.fingerprint != environment)
    result.remark =
        "the profile of this machine is stale: hardware, system or worker have changed since; "
        "`autotune calibrate` measures it again";
  return result;
}

}  // namespace tuner
