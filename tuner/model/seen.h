// Seen: the runs that a stack's constants were fitted on, and how far a plan lies from them.
#pragma once
#include <array>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/workload.h"
#include "tuner/model/cluster_spec.h"

namespace tuner {

// The features of a run whose range counts; all at least 1.
constexpr std::array<std::string_view, 6> kSeenFeatures = {
    "hidden", "sequence", "micro_batch_tokens", "tp", "pp", "gpus"};
using SeenFeatures = std::array<double, kSeenFeatures.size()>;

SeenFeatures seen_features(const engine::ModelSpec& model, const engine::Workload& workload,
                           const ClusterSpec& cluster, const engine::ParallelPlan& plan);

// "hopper/fp8"; fp16 and bf16 share their numbers.
std::string format_scope(const ClusterSpec& cluster, engine::Precision precision);

struct Seen {
  std::set<std::string> formats;  // arithmetic, as by format_scope
  SeenFeatures least, most;       // least > most: nothing was seen

  Seen() {
    least.fill(std::numeric_limits<double>::infinity());
    most.fill(0);
  }
  bool empty() const { return formats.empty(); }
  void add(const std::string& format, const SeenFeatures& features);
  // In doublings beyond the ranges, summed over the features; 0 of what lies within, or when
  // nothing was seen at all.
  double distance(const SeenFeatures& features) const;
};

nlohmann::json seen_to_json(const Seen& seen);
// Throws InputError.
Seen seen_from_json(const nlohmann::json& json, const std::string& origin);

}  // namespace tuner
