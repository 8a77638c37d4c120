// Where the time of a step goes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

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

}  // namespace

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

bool is_part_before(const std::string& a, const std::string& b) {
  return part_rank(a) < part_rank(b);
}

Section step_section(const engine::Outcome& outcome, const engine::Outcome* baseline) {
  constexpr double kSmallestShare = 0.003;
  auto parts = outcome.breakdown_seconds;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return is_part_before(a.first, b.first); });
  double sum = 0;
  for (const auto& [name, seconds] : parts) sum += seconds;
  Section section{"Step time", {}};
  if (!(sum > 0)) return section;
  std::map<std::string, double> theirs;
  double their_sum = 0;
  if (baseline)
    for (const auto& [name, seconds] : baseline->breakdown_seconds) {
      theirs[name] += seconds;
      their_sum += seconds;
    }
  std::vector<std::string> names;
  std::vector<double> amounts, compared;
  double others = 0, compared_others = their_sum;
  for (const auto& [name, seconds] : parts) {
    if (seconds > kSmallestShare * sum || theirs[name] > kSmallestShare * their_sum) {
      names.push_back(part_title(name));
      amounts.push_back(seconds);
      compared.push_back(theirs[name]);
      compared_others -= theirs[name];
    } else {
      others += seconds;
    }
  }
  // A sum that shows as 0.0 % would be noise.
  if (others > 0.0005 * sum) {
    names.emplace_back("others");
    amounts.push_back(others);
    compared.push_back(std::max(0.0, compared_others));
  }
  const std::vector<double> percent = rounded_percent(amounts);
  const bool compares = their_sum > 0;
  Bars bars;
  if (compares) bars.other_title = "baseline";
  const auto amount = [](const engine::Outcome& of, double seconds) {
    return seconds > 0 ? fmt::format("{}{}", mark(of), engine::format_seconds(seconds))
                       : std::string("-");
  };
  for (size_t i = 0; i < names.size(); ++i)
    bars.parts.push_back({names[i], percent[i], amount(outcome, amounts[i]),
                          compares ? amount(*baseline, compared[i]) : ""});
  section.blocks.emplace_back(std::move(bars));
  return section;
}

}  // namespace tuner
