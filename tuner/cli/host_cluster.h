// This machine as a cluster: its ranks are threads or processes that share its cores.
#pragma once
#include <string>

#include "tuner/model/cluster_spec.h"
#include "tuner/profile/fingerprint.h"

namespace tuner {

// The name of the user's profile that `autotune calibrate` writes.
inline constexpr char kHostProfile[] = "this-host";

struct HostCluster {
  ClusterSpec cluster;
  bool is_current = false;  // calibrated, and nothing has changed since
  std::string remark;       // why it is not
};

// `ranks` on this host, each with its share of the memory; the calibrated profile where there is
// one, else the general one of a CPU. `environment` is the hash of the fingerprint that the local
// launcher has now; empty = unknown. With `ranks_per_node` (0 = all) they are on as many equal
// hosts as that takes. Ranks that are threads share the memory of one runtime.
HostCluster host_cluster(const Host& host, int ranks, const std::string& environment,
                         int ranks_per_node = 0, bool threads = true);

}  // namespace tuner
