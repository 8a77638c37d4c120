// Answers as CSV (RFC 4180, with a header): one row a plan.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/report/answer.h"
#include "tuner/report/layout.h"

namespace tuner {
namespace {

constexpr std::string_view kHeader =
    "kind,dp,tp,pp,vpp,cp,ep,sp,mbs,gbs,recompute,zero,layers_per_stage,step_seconds,low,high,"
    "tflops_per_gpu,mfu,peak_bytes,fits,measured,model,gpu,gpus,stack\n";
constexpr int kPlanFields = 12;

// Empty for a plan that breaks a rule: its outcome says nothing.
std::string known(double value) { return value > 0 ? fmt::format("{:.15g}", value) : ""; }

std::string plan_fields(const PlanRecord& record) {
  if (!record.plan) return std::string(kPlanFields - 1, ',');
  const engine::ParallelPlan& plan = *record.plan;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}", plan.dp, plan.tp, plan.pp, plan.vpp,
                     plan.cp, plan.ep, plan.sp, plan.mbs, plan.gbs, to_string(plan.recompute),
                     plan.zero, fmt::join(record.layers_per_stage, " "));
}

std::string outcome_fields(const engine::Outcome* outcome) {
  if (!outcome) return ",,,,,,,";
  return fmt::format("{},{},{},{},{},{},{},{}", known(outcome->step_seconds),
                     known(outcome->interval_seconds.low), known(outcome->interval_seconds.high),
                     known(outcome->tflops_per_gpu), known(outcome->mfu),
                     known(outcome->memory.peak_bytes), outcome->fits, outcome->measured);
}

std::string row(std::string_view kind, const Question& question, const PlanRecord& record) {
  return fmt::format("{},{},{},{},{},{},{}\n", kind, plan_fields(record),
                     outcome_fields(record.outcome()), csv_field(question.model),
                     csv_field(question.gpu), question.gpus, csv_field(question.stack));
}

}  // namespace

std::string csv_field(std::string_view text) {
  std::string field = harmless(text);
  constexpr std::string_view kFormula = "=+-@\t\r";
  // The first character counts before it was made harmless, too.
  if (!text.empty() && kFormula.find(text.front()) != std::string_view::npos) field.insert(0, "'");
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_of(const TrainAnswer& answer) {
  std::string text(kHeader);
  if (answer.best) text += row("best", answer.question, *answer.best);
  for (const RunnerUpRecord& runner_up : answer.runners_up)
    text += row("runner_up", answer.question, runner_up.record);
  if (answer.baseline) text += row("baseline", answer.question, *answer.baseline);
  return text;
}

std::string csv_of(const EstimateAnswer& answer) {
  std::string text = std::string(kHeader) +
                     row(answer.check ? "check" : "estimate", answer.question, answer.record);
  for (const RunnerUpRecord& near : answer.nearest)
    text += row("nearest", answer.question, near.record);
  return text;
}

std::string csv_of(const SizeAnswer& answer) {
  std::string text(kHeader);
  if (answer.best) text += row("best", answer.question, *answer.best);
  return text;
}

std::string csv_of(const SweepAnswer& answer) {
  std::string text(kHeader);
  for (const SweepPointRecord& point : answer.points) {
    Question question = answer.question;
    question.gpus = point.gpus;
    if (point.best) text += row("best", question, *point.best);
  }
  return text;
}

}  // namespace tuner
