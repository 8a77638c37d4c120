// StepWork: the matrix products and the messages of one step, as this project's engine counts them:
// of training here, of serving in serve_work.h.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"

namespace tuner {

// Of one rank of a pipeline stage (equal for all of its ranks), for a dense model under a legal
// plan without context parallelism.
struct StepWork {
  // 2 m n k of every product: 3 forward passes, and what recomputation adds. Scores count over the
  // full square when attention is unfused; the fused kernel is no product and counts nothing.
  double matmul_flops = 0;
  // Sorted by axis and verb. Payloads are whole buffers, as in a collective's interface: not a
  // rank's share of them, and not what an algorithm puts on the wire.
  std::vector<engine::Traffic> traffic;
};

// Sums messages of the same axis and verb.
class TrafficCounts {
 public:
  void add(const char* axis, const char* verb, int64_t messages, int64_t payload_bytes);
  std::vector<engine::Traffic> list() const;  // sorted by axis and verb

 private:
  std::map<std::pair<std::string, std::string>, engine::Traffic> counts_;
};

// Columns, or rows, of all weight matrices of a dense layer on a rank; the other side is hidden.
int64_t product_columns(const engine::ModelSpec& model, int tp);

StepWork step_work(const Scenario& scenario, const engine::ParallelPlan& plan, int stage);

}  // namespace tuner
