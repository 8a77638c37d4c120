// The report of `autotune train`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"
#include "tuner/space/codes.h"

namespace tuner {

using engine::format_bytes;
using engine::format_count;
using engine::format_grouped;
using engine::format_seconds;
using engine::Outcome;

namespace {

constexpr double kSecondsOfDay = 86400;

std::string days_phrase(const TrainAnswer& answer) {
  const Outcome& outcome = *answer.best->outcome();
  const double seconds = answer.days * kSecondsOfDay;
  std::string text = answer.question.tokens > 0
                         ? format_count(answer.question.tokens) + " tokens in "
                         : std::string("the whole training in ");
  text += fmt::format("{}{}", mark(outcome), format_seconds(seconds));
  const engine::Interval& interval = outcome.interval_seconds;
  if (interval.high > interval.low && interval.low > 0 && outcome.step_seconds > 0)
    text += fmt::format(" ({})", seconds_range(seconds * interval.low / outcome.step_seconds,
                                               seconds * interval.high / outcome.step_seconds));
  return text;
}

std::string cost_phrase(const Outcome& outcome, const TrainAnswer& answer) {
  const double hours = answer.days * 24 * static_cast<double>(answer.question.gpus);
  return fmt::format("{0}{1} GPU-hours, cost {0}{2} at {3:.6g} a GPU-hour", mark(outcome),
                     rough_amount(hours), rough_amount(answer.cost), answer.price);
}

Section best_section(const TrainAnswer& answer) {
  Section section{"Best", {}};
  const PlanRecord& best = *answer.best;
  section.blocks.emplace_back(Sentence{plan_phrase(best), Tone::strong});
  const Outcome* outcome = best.outcome();
  if (!outcome) return section;
  section.blocks.emplace_back(Sentence{rate_phrase(*outcome)});
  std::string step = step_phrase(*outcome);
  if (answer.days > 0) step += "; " + days_phrase(answer);
  section.blocks.emplace_back(Sentence{std::move(step)});
  if (answer.cost > 0) section.blocks.emplace_back(Sentence{cost_phrase(*outcome, answer)});
  section.blocks.emplace_back(memory_sentence(answer.question, *outcome));
  if (outcome->measured && best.predicted)
    section.blocks.emplace_back(Sentence{"predicted were: " + step_phrase(*best.predicted)});
  section.blocks.emplace_back(legend(*outcome));
  return section;
}

Section bullets(std::string label, const std::vector<std::string>& sentences) {
  Section section{std::move(label), {}};
  for (const std::string& sentence : sentences) section.blocks.emplace_back(Bullet{sentence});
  return section;
}

// Why no plan is left, in one sentence.
Section nothing_section(const TrainAnswer& answer) {
  const SearchRecord& search = answer.search;
  std::string text;
  if (search.candidates == 0)
    text = fmt::format("No plan uses all {} GPUs within the restrictions.",
                       format_grouped(answer.question.gpus));
  else if (search.legal == 0)
    text = fmt::format("No plan is legal: each of the {} candidates breaks a rule.",
                       format_grouped(search.candidates));
  else
    text = fmt::format(
        "Nothing fits: with the margin of the memory model, each of the {} legal plans needs more "
        "than the {} of a GPU.",
        format_grouped(search.legal), format_bytes(answer.question.memory_bytes));
  Section section = bullets("No plan", answer.remedies);
  section.blocks.insert(section.blocks.begin(), Sentence{std::move(text), Tone::bad});
  return section;
}

std::string verdict(const RunnerUpRecord& runner_up, bool best_is_measured) {
  const auto& measured = runner_up.record.measured;
  if (measured && measured->status != engine::OutcomeStatus::ok)
    return fmt::format("its measurement ended as {}{}{}", name_of(measured->status),
                       measured->reason.empty() ? "" : ": ", measured->reason);
  if (measured && best_is_measured) return "both are measured";
  if (!runner_up.probability_faster) return "";
  constexpr double kWorthMeasuring = 0.2, kOutside = 0.05;
  const double chance = *runner_up.probability_faster;
  if (chance < kOutside) return "outside the error band";
  return fmt::format("inside the error band ({:.0f} % chance to be faster){}", 100 * chance,
                     chance >= kWorthMeasuring ? ": measure both" : "");
}

// A column of the plans and what stands in it.
struct PlanColumn {
  Column column;
  std::string (*cell)(const engine::ParallelPlan& plan);
  bool always = true;  // else only where a plan has something else than 1
};

std::vector<PlanColumn> plan_columns() {
  return {{{"TP", true, 1}, [](const auto& plan) { return fmt::format("{}", plan.tp); }},
          {{"PP", true, 1}, [](const auto& plan) { return fmt::format("{}", plan.pp); }},
          {{"VPP", true, 5}, [](const auto& plan) { return fmt::format("{}", plan.vpp); }, false},
          {{"CP", true, 6}, [](const auto& plan) { return fmt::format("{}", plan.cp); }, false},
          {{"DP", true, 4}, [](const auto& plan) { return fmt::format("{}", plan.dp); }},
          {{"SP", false, 8}, [](const auto& plan) { return std::string(plan.sp ? "yes" : "no"); }},
          {{"MBS", true, 7}, [](const auto& plan) { return fmt::format("{}", plan.mbs); }},
          {{"recompute", false, 2}, [](const auto& plan) { return to_string(plan.recompute); }},
          {{"ZeRO", true, 9}, [](const auto& plan) { return fmt::format("{}", plan.zero); }}};
}

// The cells in front of a plan's own, of one row.
std::vector<std::string> outcome_cells(const std::string& name, const Outcome* outcome,
                                       double slower) {
  if (!outcome) return {name, "", "", ""};
  const std::string_view sign = mark(*outcome);
  return {name, fmt::format("{}{}", sign, format_seconds(outcome->step_seconds)),
          name == "best" ? "" : fmt::format("{:+.1f} %", 100 * slower),
          fmt::format("{}{}", sign, format_bytes(outcome->memory.peak_bytes))};
}

Section runners_up_section(const TrainAnswer& answer) {
  Section section{"Runners-up", {}};
  if (answer.runners_up.empty()) return section;
  Table table{{{"", false, 0}, {"step", true, 0}, {"slower", true, 0}, {"memory", true, 3}}, {}};
  std::vector<const PlanRecord*> records;
  if (answer.best->plan) records.push_back(&*answer.best);
  for (const RunnerUpRecord& runner_up : answer.runners_up)
    if (runner_up.record.plan) records.push_back(&runner_up.record);
  std::vector<PlanColumn> columns = plan_columns();
  std::erase_if(columns, [&](const PlanColumn& column) {
    return !column.always && std::all_of(records.begin(), records.end(), [&](const auto* record) {
      return column.cell(*record->plan) == "1";
    });
  });
  for (const PlanColumn& column : columns) table.columns.push_back(column.column);
  const auto add = [&](std::vector<std::string> cells, const PlanRecord& record, std::string note) {
    for (const PlanColumn& column : columns)
      cells.push_back(record.plan ? column.cell(*record.plan) : "");
    table.rows.push_back({std::move(cells), std::move(note)});
  };
  add(outcome_cells("best", answer.best->outcome(), 0), *answer.best, "");
  int place = 1;
  for (const RunnerUpRecord& runner_up : answer.runners_up) {
    std::string note = runner_up.difference;
    const std::string judged = verdict(runner_up, answer.best->measured.has_value());
    if (!judged.empty()) note += (note.empty() ? "" : "; ") + judged;
    add(outcome_cells(fmt::format("{}", ++place), runner_up.record.outcome(), runner_up.slower),
        runner_up.record, std::move(note));
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

Section baseline_section(const TrainAnswer& answer) {
  Section section{"Baseline", {}};
  if (!answer.knows_baseline) return section;
  if (!answer.baseline) {
    section.blocks.emplace_back(
        Sentence{"No plan of the kind people ran in 2021 (full recomputation, no SP, no "
                 "interleaving, ZeRO 0) "
                 "fits, so there is nothing to compare with."});
    return section;
  }
  if (answer.speedup > 0) {
    const double gain = 100 * (answer.speedup - 1);
    section.blocks.emplace_back(
        Sentence{fmt::format("{:+.1f} % throughput over what people ran in 2021:", gain),
                 gain >= 0 ? Tone::good : Tone::plain});
  }
  std::string text = plan_phrase(*answer.baseline);
  if (const Outcome* outcome = answer.baseline->outcome()) {
    text += ": " + step_phrase(*outcome);
    if (answer.days > 0 && answer.speedup > 0)
      text += fmt::format(", {}{}", mark(*outcome),
                          format_seconds(answer.days * answer.speedup * kSecondsOfDay));
  }
  section.blocks.emplace_back(Sentence{std::move(text)});
  return section;
}

std::string rule_title(const std::string& code) {
  for (const RuleDocument& rule : rule_documents())
    if (rule.code == code) return std::string(rule.title);
  return "";
}

// Codes and how many plans each removed, most first.
std::vector<std::pair<std::string, int64_t>> removed_plans(const SearchRecord& search) {
  std::vector<std::pair<std::string, int64_t>> removed(search.rejected.begin(),
                                                       search.rejected.end());
  if (search.legal > search.fits && !search.rejected.contains(kMemoryRule))
    removed.emplace_back(kMemoryRule, search.legal - search.fits);
  std::stable_sort(removed.begin(), removed.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return removed;
}

Section search_section(const TrainAnswer& answer) {
  const SearchRecord& search = answer.search;
  Section section{"Search", {}};
  if (search.candidates == 0) return section;
  std::string funnel =
      fmt::format("{} candidates → {} legal → {} fit", format_grouped(search.candidates),
                  format_grouped(search.legal), format_grouped(search.fits));
  if (search.simulated > 0)
    funnel += fmt::format(" → {} simulated in detail", format_grouped(search.simulated));
  if (answer.best) funnel += fmt::format(" → {} measured", format_grouped(answer.measured()));
  if (search.seconds > 0) funnel += fmt::format(", in {}", format_seconds(search.seconds));
  section.blocks.emplace_back(Sentence{std::move(funnel)});
  Table table{{{"removed", true, 0}, {"code", false, 0}, {"rule", false, 0}}, {}};
  for (const auto& [code, count] : removed_plans(search))
    table.rows.push_back({{format_grouped(count), code, rule_title(code)}, ""});
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
  return section;
}

Section grid_section(const TrainAnswer& answer) {
  Section section{"NVIDIA grid", {}};
  if (!answer.grid) return section;
  const GridRecord& grid = *answer.grid;
  if (grid.plans == 0) {
    section.blocks.emplace_back(Sentence{
        "The grids of NVIDIA's auto-configurator have no entry for this model, sequence and GPU."});
    return section;
  }
  std::string text =
      fmt::format("NVIDIA's grid {}would have tried {} plans: {} legal, {} fit",
                  grid.name.empty() ? "" : "(" + grid.name + ") ", format_grouped(grid.plans),
                  format_grouped(grid.legal), format_grouped(grid.fits));
  const Outcome* theirs = grid.best ? grid.best->outcome() : nullptr;
  const Outcome* ours = answer.best ? answer.best->outcome() : nullptr;
  if (theirs && ours && ours->step_seconds > 0) {
    const double slower = 100 * (theirs->step_seconds / ours->step_seconds - 1);
    if (grid.best->plan == answer.best->plan)
      text += "; its best is the same plan";
    else
      text += fmt::format("; its best, {}, is ~{:.1f} % {}", plan_phrase(*grid.best),
                          std::abs(slower), slower >= 0 ? "slower" : "faster");
  } else if (theirs) {
    text += fmt::format("; its best: {}, {}", plan_phrase(*grid.best), step_phrase(*theirs));
  }
  section.blocks.emplace_back(Sentence{text + "."});
  return section;
}

Section next_section(const TrainAnswer& answer) {
  Section section{"Next", {}};
  if (answer.best && answer.best->plan)
    section.blocks.emplace_back(estimate_command(answer.question, *answer.best));
  if (const auto removed = removed_plans(answer.search); !removed.empty())
    section.blocks.emplace_back(CommandLine{
        {"autotune", "explain", shell_word(removed.front().first)}, "the rule that removed most"});
  section.blocks.emplace_back(
      CommandLine{{"autotune", "report", "--json"}, "the last answer with every number"});
  return section;
}

}  // namespace

namespace {

// The numbers that the answer comes down to.
std::vector<Figure> figures_of(const TrainAnswer& answer) {
  const Outcome* outcome = answer.best ? answer.best->outcome() : nullptr;
  if (!outcome) return {};
  const std::string_view sign = mark(*outcome);
  const engine::Interval& interval = outcome->interval_seconds;
  std::vector<Figure> figures{{"step",
                               fmt::format("{}{}", sign, format_seconds(outcome->step_seconds)),
                               interval.low > 0 ? seconds_range(interval.low, interval.high) : ""}};
  if (answer.days > 0)
    figures.push_back(
        {"whole training", fmt::format("{}{}", sign, format_seconds(answer.days * kSecondsOfDay)),
         answer.question.tokens > 0 ? format_count(answer.question.tokens) + " tokens" : ""});
  if (answer.cost > 0)
    figures.push_back({"cost", fmt::format("{}{}", sign, rough_amount(answer.cost)),
                       fmt::format("at {:.6g} a GPU-hour", answer.price)});
  figures.push_back(
      {"throughput",
       fmt::format("{}{} tokens/s", sign, rough_amount(outcome->tokens_per_second_per_gpu)),
       "per GPU"});
  figures.push_back({"MFU", fmt::format("{}{:.1f} %", sign, 100 * outcome->mfu),
                     fmt::format("{:.4g} TFLOP/s per GPU", outcome->tflops_per_gpu)});
  const double capacity = outcome->memory.capacity_bytes;
  if (capacity > 0)
    figures.push_back({"memory",
                       fmt::format("{}{:.0f} %", sign, 100 * outcome->memory.peak_bytes / capacity),
                       fmt::format("{} of {}", format_bytes(outcome->memory.peak_bytes),
                                   format_bytes(capacity))});
  if (answer.speedup > 0)
    figures.push_back(
        {"over the baseline", fmt::format("{:.2f} ×", answer.speedup), "what people ran in 2021"});
  return figures;
}

std::vector<NamedOutcome> named_outcomes(const TrainAnswer& answer) {
  std::vector<NamedOutcome> plans;
  const auto add = [&](std::string name, const PlanRecord& record) {
    // Only predictions tell the parts.
    if (record.predicted && !record.predicted->breakdown_seconds.empty())
      plans.emplace_back(std::move(name), &*record.predicted);
  };
  add("best", *answer.best);
  for (size_t i = 0; i < answer.runners_up.size(); ++i)
    add(fmt::format("{}", i + 2), answer.runners_up[i].record);
  if (answer.baseline) add("baseline", *answer.baseline);
  return plans;
}

Section fitting_section(const TrainAnswer& answer) {
  Section section{"All that fit", {}};
  Chart chart = fitting_chart(answer);
  if (!chart.series.empty()) section.blocks.emplace_back(std::move(chart));
  return section;
}

Section pipeline_section(const TrainAnswer& answer) {
  Section section{"Pipeline", {}};
  if (!answer.pipeline) return section;
  Timeline timeline = pipeline_picture(*answer.pipeline);
  if (!timeline.passes.empty()) section.blocks.emplace_back(std::move(timeline));
  return section;
}

// How the plan was found: timing, memory and other plans.
void add_plan_sections(const TrainAnswer& answer, Document& document) {
  document.add(runners_up_section(answer));
  if (answer.measurement) {
    Section section = measurement_section(*answer.measurement);
    Chart chart = measured_chart(answer.question, *answer.measurement);
    if (!chart.series.empty()) section.blocks.emplace_back(std::move(chart));
    document.add(std::move(section));
  }
  if (answer.confirmation) document.add(confirmation_section(*answer.confirmation));
  document.add(baseline_section(answer));
  document.add(comparison_section(answer));
  if (const Outcome* outcome = answer.best->outcome()) {
    const bool compares = answer.baseline && !outcome->measured;
    Section step = step_section(*outcome, compares ? answer.baseline->outcome() : nullptr);
    if (const auto plans = named_outcomes(answer); !plans.empty())
      step.blocks.emplace_back(parts_chart(plans));
    document.add(std::move(step));
    Section memory = memory_section(*outcome, 4);
    if (!memory.blocks.empty()) memory.blocks.emplace_back(memory_chart(answer.question, *outcome));
    document.add(std::move(memory));
  }
  document.add(pipeline_section(answer));
  document.add(fitting_section(answer));
}

}  // namespace

Document document_of(const TrainAnswer& answer) {
  const bool has_plan = answer.best && answer.best->plan;
  Document document{
      "autotune train", asked_lines(answer.question, has_plan ? answer.best->plan->tp : 0), {}};
  if (answer.best) {
    document.add(best_section(answer));
    document.add(bullets("Why", answer.reasons));
    document.lead = document.sections.size();
    document.figures = figures_of(answer);
    add_plan_sections(answer, document);
  } else {
    document.add(nothing_section(answer));
  }
  document.add(search_section(answer));
  document.add(grid_section(answer));
  document.add(bullets("Assumed", answer.assumptions));
  document.add(sources_section(answer.question));
  document.add(next_section(answer));
  return document;
}

}  // namespace tuner
