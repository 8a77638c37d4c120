// The reports of `autotune estimate train` and `autotune check train`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {
namespace {

using engine::Outcome;
using engine::Violation;

std::string verdict(const Outcome& outcome) {
  const size_t broken = outcome.violations.size();
  if (broken > 0) return fmt::format("breaks {} rule{}", broken, broken == 1 ? "" : "s");
  return outcome.fits ? "legal, and fits" : "legal, but does not fit the memory of a GPU";
}

Section plan_section(const Question& question, const PlanRecord& record) {
  const Outcome& outcome = *record.outcome();
  Section section{"Plan", {}};
  section.blocks.emplace_back(Sentence{plan_phrase(record), Tone::strong});
  const bool good = outcome.fits && outcome.violations.empty();
  section.blocks.emplace_back(Sentence{verdict(outcome), good ? Tone::good : Tone::bad});
  if (outcome.step_seconds > 0) {
    section.blocks.emplace_back(Sentence{step_phrase(outcome)});
    section.blocks.emplace_back(Sentence{rate_phrase(outcome)});
  }
  if (outcome.memory.peak_bytes > 0)
    section.blocks.emplace_back(memory_sentence(question, outcome));
  if (outcome.step_seconds > 0) section.blocks.emplace_back(legend(outcome));
  return section;
}

Section violations_section(const Outcome& outcome) {
  Section section{"Broken rules", {}};
  for (const Violation& violation : outcome.violations) {
    std::string text = violation.code + "  " + violation.message;
    if (!violation.nearest.empty())
      text += fmt::format("; nearest: {}", fmt::join(violation.nearest, ", "));
    section.blocks.emplace_back(Bullet{std::move(text)});
  }
  return section;
}

// Plans that work, each with its cost and what it changes.
Section nearest_section(const EstimateAnswer& answer) {
  Section section{"Nearest", {}};
  for (const RunnerUpRecord& near : answer.nearest) {
    const Outcome& outcome = *near.record.outcome();
    section.blocks.emplace_back(Bullet{
        fmt::format("{}: {}, {} at the fullest stage ({})", near.difference, step_phrase(outcome),
                    engine::format_bytes(outcome.memory.peak_bytes), plan_phrase(near.record))});
  }
  return section;
}

Section next_section(const Outcome& outcome) {
  Section section{"Next", {}};
  std::vector<std::string> codes;
  for (const Violation& violation : outcome.violations)
    if (std::find(codes.begin(), codes.end(), violation.code) == codes.end())
      codes.push_back(violation.code);
  if (codes.empty() && !outcome.fits) codes.emplace_back(kMemoryRule);
  for (const std::string& code : codes)
    section.blocks.emplace_back(
        CommandLine{{"autotune", "explain", shell_word(code)},
                    code == codes.front() ? "why this is a rule, and what to do" : ""});
  return section;
}

}  // namespace

Document document_of(const EstimateAnswer& answer) {
  constexpr size_t kMostStages = 8;
  const PlanRecord& record = answer.record;
  const Outcome& outcome = *record.outcome();
  Document document{answer.check ? "autotune check train" : "autotune estimate train",
                    asked_lines(answer.question, record.plan ? record.plan->tp : 0),
                    {}};
  document.add(plan_section(answer.question, record));
  document.add(violations_section(outcome));
  document.add(nearest_section(answer));
  document.add(step_section(outcome));
  document.add(memory_section(outcome, kMostStages));
  document.add(sources_section(answer.question));
  document.add(next_section(outcome));
  return document;
}

}  // namespace tuner
