// The order of plans.
#include "tuner/search/standing.h"

#include <algorithm>
#include <cmath>

namespace tuner {

bool Standing::is_better_than(const Standing& other) const {
  constexpr double kEqual = 1e-9;  // relative
  const bool keeps = excess <= 1, other_keeps = other.excess <= 1;
  if (keeps != other_keeps) return keeps;
  if (!keeps && excess != other.excess) return excess < other.excess;
  const bool equal = std::abs(value - other.value) <= kEqual * std::max(value, other.value);
  return equal ? second < other.second : value < other.value;
}

double Standing::room_to(const Standing& other) const {
  if (other.excess > 1) return other.excess / excess;
  const double room = other.value / value;
  return excess > 0 ? std::min(room, 1 / excess) : room;
}

}  // namespace tuner
