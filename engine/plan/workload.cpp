// JSON of workloads.
#include "engine/plan/workload.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {

Json workload_to_json(const Workload& workload) {
  return {{"seq", workload.seq},
          {"gbs", workload.gbs},
          {"tokens", workload.tokens},
          {"precision", name_of(workload.precision)},
          {"attention", name_of(workload.attention)}};
}

Workload workload_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  Workload workload;
  workload.seq = reader.integer("seq", {1, int64_t{1} << 32});
  workload.gbs = reader.integer("gbs", {1, int64_t{1} << 32});
  workload.tokens = reader.number("tokens", {0, 1e18}, 0.0);
  workload.precision = static_cast<Precision>(
      reader.choice("precision", {kPrecisionNames.begin(), kPrecisionNames.end()}));
  workload.attention = static_cast<AttentionKind>(reader.choice("attention", {"unfused", "flash"}));
  reader.finish();
  problems.throw_if_any();
  return workload;
}

}  // namespace engine
