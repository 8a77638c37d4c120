// Where trials run: the launcher, and this machine as the cluster.
#pragma once
#include <optional>

#include "tuner/cli/host_cluster.h"
#include "tuner/cli/measure_options.h"

namespace tuner {

// The launcher of the request, with what the user asks of Slurm. Throws Error (environment) where
// the worker or the launcher is missing.
Launcher trial_launcher(const Arguments& arguments, const MeasureRequest& request);

// `--gpus` ranks of this machine, or of its GPUs, as the cluster. Where trials will run on it
// (there is a launcher) and it is not calibrated, or no longer, it is measured first.
HostCluster trial_cluster(const Arguments& arguments, const MeasureRequest& request,
                          const std::optional<Launcher>& launcher, const Host& host);

}  // namespace tuner
