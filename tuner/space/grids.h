// Empirical grids: the plans that NVIDIA's auto-configurator would have tried, to compare with.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/workload.h"

namespace tuner {

struct GridPlans {
  std::string name;                         // "gpt-80gb"
  std::string origin;                       // the file
  int64_t gbs = 0;                          // the batch the tool would have set; 0 = not given
  std::vector<engine::ParallelPlan> plans;  // at the workload's own batch, in the tool's order
  std::vector<engine::ParallelPlan> base;   // its first, un-tuned guess: one plan or none
};

// The tool's plans for a model of the GPT family on `gpus` devices of `memory_bytes`. Takes seq and
// gbs from the workload. Its filter only asks what divides, so some plans may be illegal or too
// big. Empty plans: its tables have no entry for this size, sequence or memory, or nothing divides.
// Throws InputError when a grid file of the user is wrong.
GridPlans grid_plans(const engine::ModelSpec& model, const engine::Workload& workload, int gpus,
                     double memory_bytes);

}  // namespace tuner
