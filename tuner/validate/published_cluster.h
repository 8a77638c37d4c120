// The machines of a published run.
#pragma once
#include <string>

#include "tuner/model/cluster_spec.h"

namespace tuner {

// The system of this GPU whose network and fabric are those that the text states ("8x400Gb/s NDR
// IB", "4x Omni-Path 100Gb/s", "1600 Gbps RoCE"); the typical one where it states none that is
// known.
ClusterSpec published_cluster(const std::string& gpu, int gpus, const std::string& interconnect);

}  // namespace tuner
