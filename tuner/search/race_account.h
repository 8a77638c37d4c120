// RaceAccount: what the trials of a race cost.
#pragma once
#include <cstddef>
#include <vector>

namespace tuner {

struct RaceAccount {
  std::vector<size_t> order;  // of the racers, in which they were first measured
  int new_trials = 0;
  double spent_seconds = 0;
  bool budget_ended = false;  // before everything was measured that was to be
  bool interrupted = false;
};

}  // namespace tuner
