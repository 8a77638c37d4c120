// Job: all that a worker needs to run one trial or one training; read from a file by the workers.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/serving.h"
#include "engine/plan/tuning.h"
#include "engine/plan/workload.h"

namespace engine {

// Learning rate and AdamW of a run.
struct OptimizerSpec {
  double learning_rate = 6e-4;
  double minimum_rate = 6e-5;
  int64_t warmup_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0 = no clipping
};

struct Job {
  ModelSpec model;
  ParallelPlan plan;
  Workload workload;
  OptimizerSpec optimizer;
  // The job serves the model, or tunes virtual tokens for it, instead of training it.
  std::optional<ServingSpec> serving = {};
  std::optional<TuningSpec> tuning = {};
  int64_t steps = 10;
  int64_t warmup_steps = 2;  // of `steps`, not timed
  uint64_t seed = 1;
  double memory_limit_bytes = 0;  // a rank; 0 = what the device has
  // A phantom run holds one rank of a plan of any size: `phantom_rank` of plan.world(); -1 = all
  // ranks.
  int64_t phantom_rank = -1;
  std::string data_prefix;  // indexed .bin/.idx files; empty = synthetic tokens
  // Held-out text: the loss on its first `validation_batches` global batches is told every
  // `validation_interval` steps (0 = at the end only); empty = none.
  std::string validation_prefix;
  int64_t validation_interval = 0;
  int64_t validation_batches = 4;
  std::string checkpoint_load;      // folder; empty = initialise
  std::string checkpoint_save;      // folder; empty = do not save
  int64_t checkpoint_interval = 0;  // steps; 0 = at the end only
  std::string events_path;          // JSON lines while it runs; empty = none
  std::string outcome_path;         // the final Outcome

  bool is_phantom() const { return phantom_rank >= 0; }
  int ranks() const { return is_phantom() ? 1 : plan.world(); }  // that really run
};

nlohmann::json job_to_json(const Job& job);
// Throws InputError with every problem, naming `source`.
Job job_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace engine
