// Confirm: runs single ranks of a plan that is bigger than this machine, and holds what the engine
// counts against what was predicted.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "tuner/profile/profiler.h"
#include "tuner/search/recommendation.h"
#include "tuner/search/slice.h"

namespace tuner {

struct ConfirmOptions {
  // Whether this machine has the cluster's device: then times and memory are measured. On any other
  // only bytes, products and messages are.
  bool times_count = false;
  std::string device = {};  // in words
  const std::atomic<int>* stop = nullptr;
  std::function<void(const std::string&)> progress = {};
};

// The job of one stage: its rank alone, among phantoms.
engine::Job job_of(const Slice& slice, const SliceStage& stage, bool times_count);

// Runs the first, a middle and the last stage of the slice, one after the other, each stored. Where
// times count, the parts of `answer` that a device computes are scaled by measured over predicted.
Confirmation confirm_plan(const Scenario& scenario, const Slice& slice, Profiler& profiler,
                          const ConfirmOptions& options, PlanAnswer& answer);

}  // namespace tuner
