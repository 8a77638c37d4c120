// The plan of a framework's file beside the best one.
#include <fmt/format.h>

#include <cmath>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {

Section comparison_section(const TrainAnswer& answer) {
  Section section{"Compared", {}};
  if (!answer.compared) return section;
  const PlanRecord& theirs = *answer.compared;
  section.blocks.emplace_back(
      Sentence{fmt::format("{}: {}", answer.compared_file, plan_phrase(theirs)), Tone::strong});
  const engine::Outcome* outcome = theirs.outcome();
  if (outcome == nullptr) return section;
  if (!outcome->violations.empty()) {
    for (const engine::Violation& violation : outcome->violations)
      section.blocks.emplace_back(Bullet{violation.code + " " + violation.message});
    return section;
  }
  std::string text = step_phrase(*outcome);
  const engine::Outcome* best = answer.best ? answer.best->outcome() : nullptr;
  if (best != nullptr && best->step_seconds > 0) {
    const double ratio = outcome->step_seconds / best->step_seconds;
    if (theirs.plan && answer.best->plan == theirs.plan)
      text += "; it is the best plan itself";
    else
      text += fmt::format("; the best plan is {:.1f} % {}", 100 * std::abs(ratio - 1),
                          ratio >= 1 ? "faster in throughput" : "slower in throughput");
  }
  section.blocks.emplace_back(Sentence{text});
  section.blocks.emplace_back(memory_sentence(answer.question, *outcome));
  if (!outcome->fits)
    section.blocks.emplace_back(Sentence{
        fmt::format(
            "It does not fit: with the margin of the memory model it needs more than the {} "
            "of a GPU.",
            engine::format_bytes(answer.question.memory_bytes)),
        Tone::bad});
  return section;
}

}  // namespace tuner
