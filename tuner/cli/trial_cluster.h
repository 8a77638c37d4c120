// Where trials run: the launcher, and this machine as the cluster.
#pragma once
#include <cstdint>
#include <optional>

#include "tuner/cli/host_cluster.h"
#include "tuner/cli/measure_options.h"

namespace tuner {

// The launcher of the request, with what the user asks of Slurm. Throws Error (environment) where
// the worker or the launcher is missing.
Launcher trial_launcher(const Arguments& arguments, const MeasureRequest& request);

enum class TrialKind : uint8_t { training, serving };

// `--gpus` ranks of this machine, or of its GPUs, as the cluster.
HostCluster trial_cluster(const Arguments& arguments, const MeasureRequest& request,
                          const std::optional<Launcher>& launcher, const Host& host);

// Where trials will run on the cluster (there is a launcher) and this machine is not calibrated, or
// no longer, measures it, tells the errors of predictions of that kind, and renews the cluster;
// whether it did. It takes its time: refuse what cannot be answered before.
bool calibrate_stale(const Arguments& arguments, const MeasureRequest& request,
                     const std::optional<Launcher>& launcher, const Host& host, TrialKind kind,
                     HostCluster& cluster);

}  // namespace tuner
