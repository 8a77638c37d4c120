// TrainingConfig: what a training framework is told, and what of it a target cannot say.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/model_spec.h"
#include "engine/plan/parallel_plan.h"
#include "engine/plan/workload.h"

namespace tuner {

struct TrainingConfig {
  engine::ModelSpec model;
  engine::ParallelPlan plan;
  engine::Workload workload;
  bool overlaps_tensor = false;  // the stack hides tensor-parallel transfers behind the products

  int64_t train_steps() const;  // of the whole training, at least 1
};

// Something that a target cannot express, and what stands there instead. One sentence.
struct Loss {
  std::string text;
  bool runs = true;  // whether the target still runs what was written
};

class Losses {
 public:
  void add(std::string text) { list_.push_back({std::move(text), true}); }
  void add_fatal(std::string text) { list_.push_back({std::move(text), false}); }
  const std::vector<Loss>& list() const { return list_; }

 private:
  std::vector<Loss> list_;
};

}  // namespace tuner
