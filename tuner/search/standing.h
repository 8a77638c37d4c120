// Standing: how good a plan is, by what it is asked for.
#pragma once

namespace tuner {

// One that keeps its limits beats those that do not; among these the lesser value wins, among the
// others the lesser excess.
struct Standing {
  double value = 0;   // seconds of a step, or what grows like them
  double excess = 0;  // the largest ratio over a limit; at most 1 keeps all, 0 = there is none
  double second = 0;  // decides between equal values, the lesser wins

  bool is_better_than(const Standing& other) const;
  Standing times(double factor) const { return {value * factor, excess * factor, second * factor}; }
  // The factor by which it may grow until it is no better than `other`.
  double room_to(const Standing& other) const;
};

}  // namespace tuner
