// Distance of a plan from the runs of a fit.
#include "tuner/model/seen.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"

namespace tuner {

SeenFeatures seen_features(const engine::ModelSpec& model, const engine::Workload& workload,
                           const ClusterSpec& cluster, const engine::ParallelPlan& plan) {
  return {static_cast<double>(model.hidden),
          static_cast<double>(workload.seq),
          static_cast<double>(plan.mbs * workload.seq) / plan.cp,
          static_cast<double>(plan.tp),
          static_cast<double>(plan.pp),
          static_cast<double>(cluster.gpus)};
}

std::string format_scope(const ClusterSpec& cluster, engine::Precision precision) {
  const auto same = precision == engine::Precision::fp16 ? engine::Precision::bf16 : precision;
  return cluster.device.architecture + "/" + std::string(name_of(same));
}

void Seen::add(const std::string& format, const SeenFeatures& features) {
  formats.insert(format);
  for (size_t i = 0; i < features.size(); ++i) {
    least[i] = std::min(least[i], features[i]);
    most[i] = std::max(most[i], features[i]);
  }
}

double Seen::distance(const SeenFeatures& features) const {
  double sum = 0;
  for (size_t i = 0; i < features.size() && !empty(); ++i)
    sum += std::max({0.0, std::log2(features[i] / most[i]), std::log2(least[i] / features[i])});
  return sum;
}

nlohmann::json seen_to_json(const Seen& seen) {
  nlohmann::json json = {{"formats", seen.formats}};
  for (size_t i = 0; i < kSeenFeatures.size(); ++i)
    json[std::string(kSeenFeatures[i])] = {seen.least[i], seen.most[i]};
  return json;
}

Seen seen_from_json(const nlohmann::json& json, const std::string& origin) {
  Seen seen;
  try {
    json.at("formats").get_to(seen.formats);
    for (size_t i = 0; i < kSeenFeatures.size(); ++i) {
      const nlohmann::json& range = json.at(std::string(kSeenFeatures[i]));
      range.at(0).get_to(seen.least[i]);
      range.at(1).get_to(seen.most[i]);
      if (!(seen.least[i] >= 1 && seen.most[i] >= seen.least[i])) throw std::out_of_range("range");
    }
  } catch (const std::exception&) {
    throw engine::InputError(origin +
                             ": fit.seen must have formats and a range [least, most] of every "
                             "feature; fit it again with autotune calibrate");
  }
  return seen;
}

}  // namespace tuner
