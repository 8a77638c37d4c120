// Confirm: runs single ranks of a plan that is bigger than this machine, and holds what the engine
// counts against what was predicted.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "tuner/profile/profiler.h"
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

// Runs the ranks of the slice, one after the other, each stored.
Confirmation confirm_slice(const Slice& slice, Profiler& profiler, const ConfirmOptions& options);

// Scales the parts of a predicted training step that a device computes, as it was measured to; what
// it waits for stays predicted.
void take_measured_compute(double factor, engine::Outcome& predicted);

}  // namespace tuner
