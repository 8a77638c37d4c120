// Serving answers as CSV: one row a plan.
#include <fmt/format.h>

#include "tuner/report/layout.h"

namespace tuner {
namespace {

constexpr std::string_view kHeader =
    "kind,tp,ep,pp,replicas,batch,weights,kv,latency_seconds,ttft_seconds,tpot_seconds,"
    "tokens_per_second,tokens_per_second_per_gpu,limit,peak_bytes,fits,meets_budget,"
    "cost_per_million_tokens,model,gpu,gpus,stack\n";

// Empty for a plan that breaks a rule.
std::string known(const ServeRecord& record, double value) {
  return record.predicted ? fmt::format("{}", value) : "";
}

std::string row(std::string_view kind, const Question& question, const ServeRecord& r) {
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", kind, r.plan.tp,
      r.plan.ep, r.plan.pp, r.plan.replicas, r.plan.batch, name_of(r.plan.weights),
      name_of(r.plan.kv), known(r, r.latency.value), known(r, r.ttft.value), known(r, r.tpot.value),
      known(r, r.throughput.value), known(r, r.per_gpu), csv_field(r.limit), known(r, r.peak_bytes),
      r.predicted && r.fits, r.predicted && r.meets, r.cost ? fmt::format("{}", *r.cost) : "",
      csv_field(question.model), csv_field(question.gpu), question.gpus, csv_field(question.stack));
}

}  // namespace

std::string csv_of(const InferAnswer& answer) {
  std::string text(kHeader);
  const Question& question = answer.question.common;
  if (answer.best) text += row(answer.meets_budget ? "best" : "nearest", question, *answer.best);
  for (const ServeRunnerUpRecord& other : answer.runners_up)
    text += row("runner_up", question, other.record);
  for (const ServeRecord& point : answer.frontier) text += row("frontier", question, point);
  if (answer.smallest) text += row("fewest_gpus", question, *answer.smallest);
  return text;
}

std::string csv_of(const ServeEstimateAnswer& answer) {
  std::string text = std::string(kHeader) + row("estimate", answer.question.common, answer.record);
  for (const ServeRunnerUpRecord& near : answer.nearest)
    text += row("near", answer.question.common, near.record);
  return text;
}

}  // namespace tuner
