// Predictions beside published measurements.
#include "tuner/validate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "engine/base/json_reader.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/memory_model.h"
#include "tuner/validate/statistics.h"

namespace tuner {

using engine::Json;
using engine::ParallelPlan;

namespace {

// Allocated bytes of a framework know nothing of the context and NCCL, but of the workspaces of
// cuBLAS and Transformer Engine: 32 MiB each on Hopper and later, 4 to 32 MiB before.
double allocator_bytes(const engine::StageMemory& stage, bool without_runtime) {
  constexpr double kWorkspaces = 64.0 * (1 << 20);
  return stage.total() - (without_runtime ? stage[engine::MemoryUse::runtime] - kWorkspaces : 0);
}

PredictedRow predict_memory(const PublishedRow& row) {
  PredictedRow result{&row, 0, 0, 0, row.plans.front()};
  const engine::MemoryOutcome memory = MemoryModel(row.scenario).evaluate(result.plan);
  if (row.last_stage) {
    result.predicted = allocator_bytes(memory.stages.back(), row.allocator_bytes);
  } else {
    for (const engine::StageMemory& stage : memory.stages)
      result.predicted = std::max(result.predicted, allocator_bytes(stage, row.allocator_bytes));
  }
  const double error = row.scenario.stack.memory_error;
  result.low = result.predicted / (1 + error);
  result.high = result.predicted * (1 + error);
  return result;
}

PredictedRow predict_fits(const PublishedRow& row) {
  const MemoryModel memory(row.scenario);
  const bool fits = memory.fits(memory.evaluate(row.plans.front()).peak_bytes);
  const double predicted = fits ? 1 : 0;
  return {&row, predicted, predicted, predicted, row.plans.front()};
}

struct Timed {
  double measured = 0, predicted = 0;
  int repeats = 0;
};

// Everything that must be equal for plans to compete.
std::string group_key(const PublishedRow& row) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", row.shape, row.scenario.model.vocab, row.gpu,
                     row.scenario.cluster.gpus, row.scenario.workload.seq, row.plans.front().gbs,
                     name_of(row.scenario.workload.precision), row.stack, row.source);
}

// Adds a group to the sums, if it is large and clear enough.
void add_group(std::vector<Timed> plans, RankingSummary& sums) {
  constexpr size_t kFinalists = 3;
  if (plans.size() < kFinalists) return;
  std::ranges::sort(plans, {}, &Timed::predicted);
  std::vector<double> measured, predicted;
  for (const Timed& plan : plans) {
    measured.push_back(plan.measured);
    predicted.push_back(plan.predicted);
  }
  const auto [fastest, slowest] = std::ranges::minmax(measured);
  if (slowest < kClearSpread * fastest) return;
  ++sums.groups;
  sums.mean_spearman += spearman(predicted, measured);
  sums.mean_regret += measured.front() / fastest - 1;
  if (plans.size() == kFinalists) return;
  ++sums.larger_groups;
  sums.mean_finalist_regret +=
      *std::min_element(measured.begin(), measured.begin() + kFinalists) / fastest - 1;
}

Json ranking_json(const RankingSummary& ranking) {
  return {{"groups", ranking.groups},
          {"mean_spearman", ranking.mean_spearman},
          {"mean_regret", ranking.mean_regret},
          {"larger_groups", ranking.larger_groups},
          {"mean_finalist_regret", ranking.mean_finalist_regret}};
}

Json row_json(const PredictedRow& row) {
  return {{"id", row.row->id},
          {"source", row.row->source},
          {"gpu", row.row->gpu},
          {"stack", row.row->stack},
          {"metric", name_of(row.row->metric)},
          {"measured", row.row->measured},
          {"predicted", row.predicted},
          {"low", row.low},
          {"high", row.high},
          {"error", row.error()},
          {"assumed", row.row->assumed}};
}

}  // namespace

PredictedRow predict_row(const PublishedRow& row) {
  if (row.metric == Metric::peak_bytes) return predict_memory(row);
  if (row.metric == Metric::fits) return predict_fits(row);
  PredictedRow best{&row, 0, 0, 0, {}};
  const CostModel cost(row.scenario);
  for (const ParallelPlan& plan : row.plans) {
    const double seconds = cost.simulated_step(cost.micro_batch_cost(plan), plan).total();
    if (best.predicted > 0 && seconds >= best.predicted) continue;
    best.predicted = seconds;
    best.plan = plan;
  }
  const engine::Interval interval = interval_of(best.predicted, cost.sigma(best.plan));
  best.low = interval.low;
  best.high = interval.high;
  return best;
}

RankingSummary rank_groups(const std::vector<PredictedRow>& rows) {
  std::map<std::string, std::map<std::string, Timed>> groups;
  for (const PredictedRow& row : rows) {
    if (row.row->metric != Metric::step_seconds || row.row->plans.size() != 1) continue;
    Timed& timed = groups[group_key(*row.row)][engine::describe(row.plan)];
    timed.measured += row.row->measured;
    timed.predicted += row.predicted;
    ++timed.repeats;
  }
  RankingSummary summary;
  for (const auto& [key, plans] : groups) {
    std::vector<Timed> means;
    for (const auto& [text, timed] : plans)
      means.push_back({timed.measured / timed.repeats, timed.predicted / timed.repeats, 1});
    add_group(std::move(means), summary);
  }
  if (summary.groups > 0) {
    summary.mean_spearman /= summary.groups;
    summary.mean_regret /= summary.groups;
  }
  if (summary.larger_groups > 0) summary.mean_finalist_regret /= summary.larger_groups;
  return summary;
}

std::map<std::string, RankingSummary> rank_groups_by_source(const std::vector<PredictedRow>& rows) {
  std::map<std::string, std::vector<PredictedRow>> sources;
  for (const PredictedRow& row : rows) sources[row.row->source].push_back(row);
  std::map<std::string, RankingSummary> rankings;
  for (const auto& [source, own] : sources)
    if (const RankingSummary ranking = rank_groups(own); ranking.groups > 0)
      rankings[source] = ranking;
  return rankings;
}

FitSummary summarize_fits(const std::vector<PredictedRow>& rows) {
  FitSummary summary;
  for (const PredictedRow& row : rows)
    if (row.row->metric == Metric::fits) summary.add(row.row->measured > 0, row.predicted > 0);
  return summary;
}

Validation validate(PublishedRows rows) {
  Validation validation;
  validation.read = std::move(rows);
  for (const PublishedRow& row : validation.read.rows)
    validation.predicted.push_back(predict_row(row));
  return validation;
}

Json validation_to_json(const Validation& v) {
  Json rows = Json::array();
  std::vector<const PredictedRow*> all;
  for (const PredictedRow& row : v.predicted) {
    rows.push_back(row_json(row));
    all.push_back(&row);
  }
  Json skipped = Json::array();
  for (const SkippedRow& row : v.read.skipped)
    skipped.push_back({{"id", row.id}, {"reason", row.reason}});
  Json ranking = ranking_json(rank_groups(v.predicted));
  ranking["by_source"] = Json::object();
  for (const auto& [source, one] : rank_groups_by_source(v.predicted))
    ranking["by_source"][source] = ranking_json(one);
  const auto by = [&](auto key) {
    return summaries_json(
        summaries_by(v.predicted, [&](const PredictedRow& row) { return key(*row.row); }));
  };
  return {{"schema", "autotune.validate/1"},
          {"rows", std::move(rows)},
          {"summary",
           {{"all", summary_json(summarize(all))},
            {"by_source", by([](const PublishedRow& r) { return r.source; })},
            {"by_gpu", by([](const PublishedRow& r) { return r.gpu; })},
            {"by_stack", by([](const PublishedRow& r) { return r.stack; })},
            {"by_metric", by([](const PublishedRow& r) { return name_of(r.metric); })}}},
          {"fits", fits_json(summarize_fits(v.predicted))},
          {"ranking", std::move(ranking)},
          {"skipped", std::move(skipped)}};
}

}  // namespace tuner
