// Chooses how much of a plan's depth a small machine can run.
#include "tuner/search/slice.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/units.h"

namespace tuner {
namespace {

double most_bytes(const Slice& slice) {
  double most = 0;
  for (const SingleRank& rank : slice.ranks) most = std::max(most, rank.bytes);
  return most;
}

}  // namespace

std::vector<std::pair<int, std::string>> standing_stages(int pp) {
  std::vector<std::pair<int, std::string>> places = {{0, pp > 1 ? "first" : "only"}};
  if (pp > 2) places.emplace_back(pp / 2, "middle");
  if (pp > 1) places.emplace_back(pp - 1, "last");
  return places;
}

bool is_refused(const AnyPlan& slice, const std::vector<engine::Violation>& broken,
                std::string& why_not) {
  if (broken.empty()) return false;
  why_not = fmt::format("the built-in engine does not run {}: {}", text_of(slice),
                        broken.front().message);
  return true;
}

std::optional<Slice> choose_slice(size_t count, const CutSlice& cut, const SliceRoom& room,
                                  std::string& why_not) {
  std::optional<Slice> fastest;
  double least_bytes = 0;
  std::string plan;
  for (size_t i = 0; i < count; ++i) {
    std::optional<Slice> slice = cut(i, why_not);
    if (!slice) return std::nullopt;
    plan = text_of(slice->of);
    const double bytes = most_bytes(*slice);
    if (least_bytes == 0 || bytes < least_bytes) least_bytes = bytes;
    if (bytes > room.bytes) continue;
    for (const SingleRank& rank : slice->ranks)
      slice->seconds += rank.work.matmul_flops / room.flops_per_second +
                        rank.bytes / room.bytes_per_second +
                        rank.read_bytes / room.read_bytes_per_second;
    if (slice->seconds <= room.seconds) return slice;
    if (!fastest || slice->seconds < fastest->seconds) fastest = std::move(slice);
  }
  if (!fastest)
    why_not = fmt::format("the smallest slice of {} needs {}, and {} are free here", plan,
                          engine::format_bytes(least_bytes), engine::format_bytes(room.bytes));
  return fastest;
}

}  // namespace tuner
