// Trains a job on ranks of the linked kind and tells everything a test compares.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/device/meter.h"
#include "engine/plan/job.h"
#include "engine/plan/outcome.h"

namespace engine {

struct RankRecord {
  int stage = 0;
  Meter meter;                   // of the last step
  std::vector<Traffic> traffic;  // of the last step
};

struct TrainingRun {
  std::vector<double> losses, norms;  // by step
  // The model's weights by checkpoint name, [out, in], put together from all ranks.
  std::map<std::string, std::vector<float>> weights;
  std::vector<RankRecord> ranks;
};

// `steps` of them, each rank on one thread; of job.plan.world() ranks.
TrainingRun train(const Job& job, int64_t steps);

// A job for a test: tiny sizes, 3 steps, and an Adam whose epsilon drowns rounding errors of
// gradients that are zero in exact arithmetic.
Job test_job(const ModelSpec& model, const ParallelPlan& plan);

// Every legal plan of the lattice {tp 1,2,4} × {pp 1,2,4} × {dp 1,2} × {vpp 1,2} × sp × zero ×
// recomputation with at most 8 ranks, gbs 8 and mbs 1. The axes beside tp, pp, dp and vpp are not
// all combined: each appears with each of the others.
std::vector<ParallelPlan> plan_lattice();

}  // namespace engine
