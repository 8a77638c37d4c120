// The pictures of `autotune train`.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/base/units.h"
#include "engine/plan/schedule.h"
#include "tuner/model/cost_model.h"
#include "tuner/model/pipeline_simulation.h"
#include "tuner/report/phrases.h"

namespace tuner {

using engine::format_grouped;
using engine::Outcome;

Chart parts_chart(const std::vector<NamedOutcome>& plans) {
  constexpr double kSmallestShare = 0.005;
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.title = "Where the step goes";
  chart.x = {"plan"};
  chart.y = {"seconds of a step", Quantity::seconds, false, true};
  std::vector<std::string> parts;
  double longest = 0;
  for (const auto& [name, outcome] : plans) {
    chart.categories.push_back(name);
    longest = std::max(longest, outcome->step_seconds);
    for (const auto& [part, seconds] : outcome->breakdown_seconds)
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(), is_part_before);
  Chart::Series others{"others", Chart::Mark::point, {}};
  for (const std::string& part : parts) {
    Chart::Series series{part_title(part), Chart::Mark::point, {}};
    double largest = 0;
    for (size_t i = 0; i < plans.size(); ++i) {
      double sum = 0;
      for (const auto& [name, seconds] : plans[i].second->breakdown_seconds)
        if (name == part) sum += seconds;
      series.points.push_back({static_cast<double>(i), sum});
      largest = std::max(largest, sum);
    }
    if (largest > kSmallestShare * longest) {
      chart.series.push_back(std::move(series));
      continue;
    }
    others.points.resize(plans.size());
    for (size_t i = 0; i < plans.size(); ++i) {
      others.points[i].x = static_cast<double>(i);
      others.points[i].y += series.points[i].y;
    }
  }
  if (!others.points.empty()) chart.series.push_back(std::move(others));
  return chart;
}

Chart memory_chart(const Question& question, const Outcome& outcome) {
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.title = "Memory of a GPU by pipeline stage";
  chart.x = {"stage"};
  chart.y = {"memory", Quantity::bytes, false, true};
  const auto& stages = outcome.memory.stages;
  for (const engine::StageMemory& stage : stages)
    chart.categories.push_back(fmt::format("stage {}", stage.stage));
  for (int i = 0; i < engine::kMemoryUses; ++i) {
    const auto use = static_cast<engine::MemoryUse>(i);
    Chart::Series series{use_title(use), Chart::Mark::point, {}};
    bool used = false;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      series.points.push_back({static_cast<double>(stage), stages[stage][use]});
      used = used || stages[stage][use] > 0;
    }
    if (used) chart.series.push_back(std::move(series));
  }
  const double capacity = outcome.memory.capacity_bytes;
  if (capacity > 0) chart.limits.push_back({"capacity", capacity});
  if (capacity > 0 && question.memory_error > 0 && !outcome.measured)
    chart.limits.push_back({fmt::format("with a margin of {:.3g} %", 100 * question.memory_error),
                            capacity / (1 + question.memory_error)});
  return chart;
}

namespace {

Chart::Point point_of(const PlanRecord& record, const Outcome& outcome) {
  Chart::Point point{outcome.memory.peak_bytes, outcome.tokens_per_second_per_gpu, record.text};
  const engine::Interval& time = outcome.interval_seconds;
  if (time.low > 0)
    point.y_interval = {point.y * outcome.step_seconds / time.high,
                        point.y * outcome.step_seconds / time.low};
  return point;
}

// "200 plans fit; 87 are drawn: …"
std::string thinning_note(const TrainAnswer& answer) {
  const FittingRecord& fitting = answer.fitting;
  int64_t all = 0;
  for (const FittingRecord::Plan& plan : fitting.plans) all += plan.plans;
  std::string note = fmt::format("{} plans fit", format_grouped(all));
  if (all > static_cast<int64_t>(fitting.plans.size()))
    note += fmt::format(
        "; drawn are {}: of those within {:.2g} % of the memory and {:.2g} % of the time of each "
        "other only the fastest",
        format_grouped(static_cast<int64_t>(fitting.plans.size())), 100 * fitting.memory_width,
        100 * fitting.time_width);
  return note + ". They are timed by the closed form, the named ones as the answer says.";
}

}  // namespace

Chart fitting_chart(const TrainAnswer& answer) {
  Chart chart;
  chart.title = "Throughput against memory, all plans that fit";
  chart.x = {"memory of the fullest GPU", Quantity::bytes};
  chart.y = {"tokens/s per GPU"};
  chart.in_text = chart.wide = true;
  const Question& question = answer.question;
  if (answer.fitting.plans.empty() || question.gpus <= 0) return chart;
  Chart::Series all{"plans that fit", Chart::Mark::faint, {}};
  const double tokens =
      static_cast<double>(question.gbs * question.seq) / static_cast<double>(question.gpus);
  for (const FittingRecord::Plan& plan : answer.fitting.plans) {
    Chart::Point point{plan.peak_bytes, tokens / plan.step_seconds, plan.text};
    point.stands_for = plan.plans;
    all.points.push_back(std::move(point));
  }
  Chart::Series others{"runners-up", Chart::Mark::point, {}}, baseline{"baseline"}, best{"best"};
  for (const RunnerUpRecord& runner_up : answer.runners_up)
    if (const Outcome* outcome = runner_up.record.outcome())
      others.points.push_back(point_of(runner_up.record, *outcome));
  if (answer.baseline && answer.baseline->outcome())
    baseline.points.push_back(point_of(*answer.baseline, *answer.baseline->outcome()));
  best.mark = Chart::Mark::strong;
  if (answer.best && answer.best->outcome())
    best.points.push_back(point_of(*answer.best, *answer.best->outcome()));
  chart.series = {std::move(all), std::move(others), std::move(baseline), std::move(best)};
  std::erase_if(chart.series, [](const Chart::Series& series) { return series.points.empty(); });
  if (question.memory_bytes > 0) chart.limits.push_back({"capacity", question.memory_bytes, true});
  chart.note = thinning_note(answer);
  return chart;
}

Chart measured_chart(const Question& question, const MeasurementRecord& measurement) {
  Chart chart;
  chart.title = "Predicted against measured step time";
  chart.x = {"predicted", Quantity::seconds};
  chart.y = {"measured", Quantity::seconds};
  chart.diagonal = true;
  Chart::Series plans{"measured plans", Chart::Mark::point, {}};
  for (const MeasuredRecord& plan : measurement.plans) {
    if (!(plan.measured_seconds > 0)) continue;
    Chart::Point point{plan.predicted_seconds, plan.measured_seconds, plan.text};
    if (question.residual_sigma > 0)
      point.x_interval = interval_of(plan.predicted_seconds, question.residual_sigma);
    point.y_interval = plan.interval;
    plans.points.push_back(std::move(point));
  }
  if (!plans.points.empty()) chart.series.push_back(std::move(plans));
  chart.note = "On the line a prediction was right; bars are 90 % intervals.";
  return chart;
}

namespace {

// The most groups of micro-batches whose passes can still be told apart; 0 = not even one.
engine::PipelineShape drawn_shape(const engine::PipelineShape& whole) {
  constexpr int64_t kMostPasses = 10'000, kMostOfLane = 250;
  const auto drawable = [](const engine::PipelineShape& shape) {
    const int64_t of_lane = 2 * shape.micro_batches * shape.chunks;
    return of_lane <= kMostOfLane && of_lane * shape.stages <= kMostPasses;
  };
  if (drawable(whole)) return whole;
  for (int64_t groups = 4; groups >= 1; --groups) {
    const engine::PipelineShape shape = engine::shortened(whole, groups);
    if (drawable(shape)) return shape;
  }
  return {whole.stages, whole.chunks, 0};
}

}  // namespace

Timeline pipeline_picture(const PipelineRecord& pipeline) {
  Timeline timeline;
  timeline.title = "The pipeline of the best plan over one step";
  timeline.kinds = {"forward", "backward"};
  const int chunks = static_cast<int>(pipeline.forward.size());
  const int stages = static_cast<int>(pipeline.forward.front().size());
  const engine::PipelineShape whole{stages, chunks, pipeline.micro_batches};
  if (chunks > 1 && engine::interleave_group(whole) == 0) return timeline;
  const engine::PipelineShape shape = drawn_shape(whole);
  if (shape.micro_batches == 0) return timeline;
  PipelineTimes times(stages, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int stage = 0; stage < stages; ++stage) {
      const auto c = static_cast<size_t>(chunk), s = static_cast<size_t>(stage);
      times.set(stage, chunk, pipeline.forward[c][s], pipeline.backward[c][s]);
    }
  const double length = simulate_pipeline(times, whole.micro_batches);
  for (int stage = 0; stage < stages; ++stage) {
    double busy = 0;
    for (int chunk = 0; chunk < chunks; ++chunk)
      busy += times.forward(stage, chunk) + times.backward(stage, chunk);
    const double share = busy * static_cast<double>(whole.micro_batches) / length;
    timeline.lanes.push_back(
        {fmt::format("stage {}", stage), fmt::format("{:.0f} % busy", 100 * share)});
  }
  for (const PipelinePass& pass : pipeline_timeline(times, shape)) {
    const bool backward = pass.step.kind == engine::PipelineStep::Kind::backward;
    timeline.passes.push_back({pass.stage, backward ? 1 : 0, pass.step.chunk % 2 == 1, pass.start,
                               pass.end, fmt::format("{}", pass.step.micro_batch + 1)});
  }
  constexpr int64_t kMostNumbered = 60;
  timeline.note = chunks > 1 ? "Interleaved 1F1B schedule; the two shades alternate between the "
                               "chunks of a stage; pale is waiting."
                             : "1F1B schedule; pale is waiting.";
  if (2 * shape.micro_batches * chunks <= kMostNumbered)
    timeline.note += " Numbers are micro-batches.";
  if (shape.micro_batches < whole.micro_batches)
    timeline.note += fmt::format(
        " {} of the {} micro-batches are drawn, as the middle of the step repeats itself; the "
        "shares "
        "are of the whole step.",
        format_grouped(shape.micro_batches), format_grouped(whole.micro_batches));
  return timeline;
}

}  // namespace tuner
