// The report of a stored run, whatever state it is in.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "engine/plan/outcome.h"
#include "engine/plan/parallel_plan.h"
#include "tuner/report/html.h"
#include "tuner/report/layout.h"
#include "tuner/report/report.h"

namespace tuner {
namespace {

using engine::Json;

// The command, when it ran, and by what: what somebody needs to get the same again.
Section provenance_section(const RunRecord& run) {
  Section section{"Run", {}};
  section.blocks.emplace_back(Bullet{
      fmt::format("run {}, begun {}, by autotune {}", run.id, run.created_at, run.tool_version)});
  if (!run.status.empty()) section.blocks.emplace_back(Bullet{"status: " + run.status});
  section.blocks.emplace_back(CommandLine{{run.command_line}, "the command"});
  return section;
}

// The plan of a job in words; empty when it cannot be read.
std::string plan_of_job(const std::string& text) {
  try {
    const Json job = engine::parse_json(text, "the stored job");
    return engine::describe(engine::plan_from_json(job.at("plan"), "the stored job"));
  } catch (const std::exception&) {
    return {};
  }
}

std::optional<engine::Outcome> outcome_of(const TrialRecord& trial) {
  try {
    return engine::outcome_from_json(engine::parse_json(trial.outcome, "the stored outcome"),
                                     "the stored outcome");
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Section trials_section(const std::vector<TrialRecord>& trials) {
  Section section{"Trials", {}};
  if (trials.empty()) return section;
  Table table{{{"trial", true, 1}, {"status", false, 0}, {"step", true, 0}, {"plan", false, 0}},
              {}};
  for (const TrialRecord& trial : trials) {
    const auto outcome = outcome_of(trial);
    const bool timed = outcome && outcome->step_seconds > 0;
    table.rows.push_back(
        {{fmt::format("{}", trial.id), trial.status.empty() ? "not finished" : trial.status,
          timed ? engine::format_seconds(outcome->step_seconds) : "-", plan_of_job(trial.job)},
         trial.reason});
  }
  section.blocks.emplace_back(std::move(table));
  return section;
}

// A run whose answer is not there or not for us.
Document bare_document(const RunRecord& run, const std::string& why,
                       const std::vector<TrialRecord>& trials) {
  Document document{"autotune " + run.kind, {}, {}};
  document.asked.push_back(run.model.empty() ? "unnamed model" : run.model);
  document.asked.push_back(fmt::format("{} × {}", engine::format_grouped(run.gpus), run.gpu));
  Section section{"No answer", {Sentence{why, Tone::bad}}};
  if (!run.title.empty()) section.blocks.emplace_back(Sentence{run.title});
  document.add(std::move(section));
  document.add(trials_section(trials));
  document.add({"Command", {CommandLine{{run.command_line}, ""}}});
  return document;
}

Document document_of_run(const RunRecord& run, const std::vector<TrialRecord>& trials) {
  if (run.answer.empty())
    return bare_document(
        run,
        "The run has no answer: it was stopped before its end, or is still at it. Its command goes "
        "on from what is stored.",
        trials);
  try {
    return document_of_answer(
        engine::parse_json(run.answer, fmt::format("the stored answer of run {}", run.id)));
  } catch (const engine::InputError& unreadable) {
    return bare_document(run, unreadable.what(), trials);
  }
}

}  // namespace

std::string render_text(const RunRecord& run, const std::vector<TrialRecord>& trials,
                        const ReportStyle& style) {
  return render_document(document_of_run(run, trials), style);
}

std::string render_markdown(const RunRecord& run, const std::vector<TrialRecord>& trials) {
  return render_document_markdown(document_of_run(run, trials));
}

std::string render_html(const RunRecord& run, const std::vector<TrialRecord>& trials) {
  Document document = document_of_run(run, trials);
  // Before what to do next, which comes last.
  const bool next = !document.sections.empty() && document.sections.back().label == "Next";
  document.sections.insert(document.sections.end() - (next ? 1 : 0), provenance_section(run));
  return render_document_html(document);
}

}  // namespace tuner
