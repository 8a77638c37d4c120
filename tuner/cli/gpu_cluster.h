// This machine's GPUs as a cluster.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tuner/cli/host_cluster.h"

namespace tuner {

// The name of the user's profile that `autotune calibrate --device cuda` writes.
inline constexpr char kGpuProfile[] = "this-host-gpu";

// The profile whose title is nearest to CUDA's name of a GPU ("NVIDIA H100 80GB HBM3") and whose
// memory is nearest; empty when none is of that model.
std::string profile_of_gpu(const std::string& name, double memory_bytes);

// `ranks` GPUs of this machine, as the worker describes it (ask_worker): the calibrated profile
// where there is one, else the built-in one of this model. `environment` as in host_cluster. Throws
// Error (environment) where there are too few usable GPUs or of an unknown model.
HostCluster gpu_cluster(const nlohmann::json& worker, int ranks, const std::string& environment);

// The same with the built-in profile, whatever was calibrated.
ClusterSpec built_in_gpu_cluster(const nlohmann::json& worker, int ranks);

// How many GPUs of this machine the worker can use.
int usable_gpus(const nlohmann::json& worker);

}  // namespace tuner
