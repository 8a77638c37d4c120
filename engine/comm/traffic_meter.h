// TrafficMeter: counts messages and payload bytes of one rank, by verb and axis.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/outcome.h"

namespace engine {

// Used by the one thread that communicates for its rank.
class TrafficMeter {
 public:
  void count(const std::string& axis, const std::string& verb, int64_t payload_bytes);
  // Everything since the start or the last reset, sorted by axis and verb.
  std::vector<Traffic> traffic() const;
  void reset() { counts_.clear(); }

 private:
  struct Count {
    int64_t messages = 0;
    int64_t payload_bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Count> counts_;
};

}  // namespace engine
