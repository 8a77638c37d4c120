// Where the time of a step goes.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/units.h"
#include "tuner/model/cost_model.h"
#include "tuner/report/phrases.h"
#include "tuner/search/explain.h"

namespace tuner {
namespace {

// The place of a part in reports; parts that the cost model does not know come last.
int part_rank(const std::string& name) {
  for (int i = 0; i < kStepParts; ++i)
    if (name == name_of(static_cast<StepPart>(i))) return i;
  return kStepParts;
}

std::string part_title(const std::string& name) {
  const int rank = part_rank(name);
  if (rank == kStepParts) {
    std::string title = name;
    std::replace(title.begin(), title.end(), '_', ' ');
    return title;
  }
  std::string_view title = plain_name(static_cast<StepPart>(rank));
  if (title.starts_with("the ")) title.remove_prefix(4);
  return std::string(title);
}

}  // namespace

Section step_section(const engine::Outcome& outcome) {
  constexpr double kSmallestShare = 0.003;
  auto parts = outcome.breakdown_seconds;
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return part_rank(a.first) < part_rank(b.first);
  });
  double sum = 0;
  for (const auto& [name, seconds] : parts) sum += seconds;
  Section section{"Step time", {}};
  if (!(sum > 0)) return section;
  std::vector<std::string> names;
  std::vector<double> amounts;
  double others = 0;
  for (const auto& [name, seconds] : parts) {
    if (seconds > kSmallestShare * sum) {
      names.push_back(part_title(name));
      amounts.push_back(seconds);
    } else {
      others += seconds;
    }
  }
  // A sum that shows as 0.0 % would be noise.
  if (others > 0.0005 * sum) {
    names.emplace_back("others");
    amounts.push_back(others);
  }
  const std::vector<double> percent = rounded_percent(amounts);
  Bars bars;
  for (size_t i = 0; i < names.size(); ++i)
    bars.parts.push_back({names[i], percent[i],
                          fmt::format("{}{}", mark(outcome), engine::format_seconds(amounts[i]))});
  section.blocks.emplace_back(std::move(bars));
  return section;
}

}  // namespace tuner
