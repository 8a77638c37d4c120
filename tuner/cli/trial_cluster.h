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

// `--gpus` ranks of this machine, or of its GPUs, as the cluster. Where trials will run on it
// (there is a launcher) and it is not calibrated, or no longer, it is measured first, and the
// errors of predictions of that kind are told.
HostCluster trial_cluster(const Arguments& arguments, const MeasureRequest& request,
                          const std::optional<Launcher>& launcher, const Host& host,
                          TrialKind kind);

}  // namespace tuner
