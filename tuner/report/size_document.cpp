// The report of `autotune size`.
#include <fmt/format.h>

#include <cmath>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {
namespace {

using engine::format_count;
using engine::format_grouped;
using engine::format_seconds;
using engine::Outcome;

constexpr double kSecondsOfDay = 86400;

std::string days_phrase(double days) { return format_seconds(days * kSecondsOfDay); }

std::string range_phrase(const RangeRecord& range, std::string (*text)(double)) {
  if (range.low > 0 && range.high > 0)
    return fmt::format(" ({} to {})", text(range.low), text(range.high));
  return "";
}

// What was asked for comes first.
std::string headline(const SizeAnswer& answer) {
  const Question& question = answer.question;
  const std::string gpus = format_grouped(question.gpus) + " GPUs";
  const std::string parameters = format_count(question.parameters) + " parameters";
  if (answer.asked == "gpus") return gpus + range_phrase(answer.gpus_range, rough_amount);
  if (answer.asked == "parameters")
    return parameters + range_phrase(answer.parameters_range, format_count);
  return "~" + days_phrase(answer.days) +
         fmt::format(" ({})", seconds_range(answer.days_range.low * kSecondsOfDay,
                                            answer.days_range.high * kSecondsOfDay));
}

// The other end of the range, where it lies beyond what can be had.
void add_open_end(const SizeAnswer& answer, Section& section) {
  const bool gpus = answer.asked == "gpus";
  if (!gpus && answer.asked != "parameters") return;
  const RangeRecord& range = gpus ? answer.gpus_range : answer.parameters_range;
  const double slow = gpus ? range.high : range.low;
  if (answer.meets_deadline && slow == 0)
    section.blocks.emplace_back(Sentence{
        fmt::format("no {} would meet the deadline if steps took the slow end of their range",
                    gpus ? "number of GPUs" : "size")});
}

void add_deadline(const SizeAnswer& answer, Section& section) {
  if (!answer.deadline_days) return;
  const std::string deadline =
      fmt::format("{:.6g} day{}", *answer.deadline_days, *answer.deadline_days == 1 ? "" : "s");
  section.blocks.emplace_back(
      answer.meets_deadline
          ? Sentence{fmt::format("meets the deadline of {}", deadline), Tone::good}
          : Sentence{fmt::format("misses the deadline of {}; this is the nearest", deadline),
                     Tone::bad});
}

void add_amounts(const SizeAnswer& answer, Section& section) {
  const auto seconds = [](double days) { return days * kSecondsOfDay; };
  std::string time = "takes ~" + days_phrase(answer.days);
  time += fmt::format(
      " ({})", seconds_range(seconds(answer.days_range.low), seconds(answer.days_range.high)));
  if (answer.asked != "days") section.blocks.emplace_back(Sentence{time});
  section.blocks.emplace_back(
      Sentence{fmt::format("~{} GPU-hours{}", rough_amount(answer.gpu_hours),
                           range_phrase(answer.gpu_hours_range, rough_amount))});
  if (answer.cost > 0)
    section.blocks.emplace_back(
        Sentence{fmt::format("cost ~{}{} at {:.6g} a GPU-hour", rough_amount(answer.cost),
                             range_phrase(answer.cost_range, rough_amount), answer.price)});
}

Section answer_section(const SizeAnswer& answer) {
  Section section{"Answer", {}};
  if (!answer.best || !answer.best->outcome()) {
    section.blocks.emplace_back(
        Sentence{"Nothing fits: no plan is legal and within the memory of a GPU.", Tone::bad});
    for (const std::string& remedy : answer.remedies) section.blocks.emplace_back(Bullet{remedy});
    return section;
  }
  section.blocks.emplace_back(Sentence{headline(answer), Tone::strong});
  add_deadline(answer, section);
  add_open_end(answer, section);
  add_amounts(answer, section);
  section.blocks.emplace_back(legend(*answer.best->outcome()));
  return section;
}

Section plan_section(const SizeAnswer& answer) {
  Section section{"Best plan", {}};
  if (!answer.best || !answer.best->outcome()) return section;
  const Outcome& outcome = *answer.best->outcome();
  section.blocks.emplace_back(Sentence{plan_phrase(*answer.best), Tone::strong});
  section.blocks.emplace_back(Sentence{step_phrase(outcome)});
  section.blocks.emplace_back(Sentence{rate_phrase(outcome)});
  section.blocks.emplace_back(memory_sentence(answer.question, outcome));
  return section;
}

Section optimum_section(const SizeAnswer& answer) {
  Section section{"Compute", {}};
  const Question& question = answer.question;
  if (!(answer.optimal_tokens_per_parameter > 0) || !(question.parameters > 0)) return section;
  const double per_parameter = question.tokens / question.parameters;
  section.blocks.emplace_back(Sentence{fmt::format(
      "{} tokens a parameter; about {:.3g} give the lowest loss for the compute "
      "(Hoffmann et al. 2022)",
      per_parameter < 1000 ? fmt::format("{:.3g}", per_parameter) : rough_amount(per_parameter),
      answer.optimal_tokens_per_parameter)});
  section.blocks.emplace_back(
      Bullet{fmt::format("for {} parameters: {} tokens; for {} tokens: {} parameters",
                         format_count(question.parameters), format_count(answer.optimal_tokens),
                         format_count(question.tokens), format_count(answer.optimal_parameters))});
  section.blocks.emplace_back(Bullet{fmt::format(
      "with the same compute: {} parameters on {} tokens",
      format_count(answer.same_compute_parameters), format_count(answer.same_compute_tokens))});
  return section;
}

Section bullets(std::string label, const std::vector<std::string>& sentences) {
  Section section{std::move(label), {}};
  for (const std::string& sentence : sentences) section.blocks.emplace_back(Bullet{sentence});
  return section;
}

}  // namespace

Document document_of(const SizeAnswer& answer) {
  const bool has_plan = answer.best && answer.best->plan;
  Document document{
      "autotune size", asked_lines(answer.question, has_plan ? answer.best->plan->tp : 0), {}};
  document.add(answer_section(answer));
  document.add(bullets("Notes", answer.notes));
  document.add(plan_section(answer));
  document.add(optimum_section(answer));
  document.add(bullets("Assumed", answer.assumptions));
  document.add(sources_section(answer.question));
  if (has_plan) document.add({"Next", {train_again_command(answer.question)}});
  return document;
}

}  // namespace tuner
