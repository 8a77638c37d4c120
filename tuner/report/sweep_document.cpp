// The report of `autotune train` on several numbers of GPUs.
#include <fmt/format.h>

#include "engine/base/units.h"
#include "tuner/report/phrases.h"

namespace tuner {
namespace {

using engine::format_bytes;
using engine::format_grouped;
using engine::format_seconds;
using engine::Outcome;

constexpr double kSecondsOfDay = 86400;

const Outcome* outcome_of(const SweepPointRecord& point) {
  return point.best ? point.best->outcome() : nullptr;
}

// The number of GPUs is in the table.
std::vector<std::string> asked(const SweepAnswer& answer) {
  std::vector<std::string> lines = asked_lines(answer.question, 0);
  std::string numbers;
  for (const SweepPointRecord& point : answer.points)
    numbers += (numbers.empty() ? "" : ", ") + format_grouped(point.gpus);
  lines.push_back("on " + numbers + " GPUs");
  return lines;
}

Section answer_section(const SweepAnswer& answer) {
  Section section{"Scaling", {}};
  Table table{{{"GPUs", true, 0},
               {"step", true, 1},
               {"tokens/s", true, 2},
               {"of linear", true, 0},
               {"days", true, 0},
               {"GPU-hours", true, 3}},
              {}};
  if (answer.price > 0) table.columns.push_back({"cost", true, 0});
  table.columns.push_back({"memory", true, 4});
  table.columns.push_back({"plan", false, 0});
  for (const SweepPointRecord& point : answer.points) {
    std::vector<std::string> cells{format_grouped(point.gpus)};
    if (const Outcome* outcome = outcome_of(point)) {
      for (std::string cell :
           {format_seconds(outcome->step_seconds), rough_amount(point.tokens_per_second)})
        cells.push_back("~" + cell);
      cells.push_back(fmt::format("{:.0f} %", 100 * point.efficiency));
      cells.push_back(fmt::format("~{:.3g}", point.days));
      cells.push_back("~" + rough_amount(point.gpu_hours));
      if (answer.price > 0) cells.push_back("~" + rough_amount(point.cost));
      cells.push_back("~" + format_bytes(outcome->memory.peak_bytes));
      cells.push_back(point.best->text);
    } else {
      cells.resize(table.columns.size() - 1, "-");
      cells.emplace_back("no plan fits");
    }
    std::string note;
    for (const std::string& remedy : point.remedies) note += (note.empty() ? "" : "; ") + remedy;
    table.rows.push_back({std::move(cells), std::move(note)});
  }
  section.blocks.emplace_back(std::move(table));
  if (answer.price > 0)
    section.blocks.emplace_back(
        Sentence{fmt::format("at {:.6g} a GPU-hour", answer.price), Tone::faint});
  section.blocks.emplace_back(
      Sentence{"Predicted (~), not measured. The global batch is the same on every number of GPUs; "
               "linear is as many tokens per GPU as on the fewest.",
               Tone::faint});
  return section;
}

Chart::Axis gpus_axis() { return {"GPUs", Quantity::number, true}; }

Chart throughput_chart(const SweepAnswer& answer) {
  Chart chart;
  chart.title = "Throughput by number of GPUs";
  chart.x = gpus_axis();
  chart.y = {"tokens/s", Quantity::number, true};
  chart.in_text = true;
  Chart::Series linear{"linear", Chart::Mark::faint, {}};
  Chart::Series best{"best plan", Chart::Mark::line, {}};
  const double tokens = static_cast<double>(answer.question.gbs * answer.question.seq);
  double per_gpu = 0;
  for (const SweepPointRecord& point : answer.points) {
    const Outcome* outcome = outcome_of(point);
    if (!outcome) continue;
    const auto gpus = static_cast<double>(point.gpus);
    if (per_gpu == 0) per_gpu = point.tokens_per_second / gpus;
    linear.points.push_back({gpus, per_gpu * gpus});
    Chart::Point measured{gpus, point.tokens_per_second, point.best->text};
    if (outcome->interval_seconds.low > 0)
      measured.y_interval = {tokens / outcome->interval_seconds.high,
                             tokens / outcome->interval_seconds.low};
    best.points.push_back(std::move(measured));
  }
  if (!best.points.empty()) chart.series = {std::move(linear), std::move(best)};
  chart.note = "Bars are 90 % intervals.";
  return chart;
}

Chart amount_chart(const SweepAnswer& answer, std::string title, Chart::Axis axis,
                   double (*amount)(const SweepPointRecord&)) {
  Chart chart;
  chart.title = std::move(title);
  chart.x = gpus_axis();
  chart.y = std::move(axis);
  Chart::Series best{"best plan", Chart::Mark::line, {}};
  for (const SweepPointRecord& point : answer.points)
    if (outcome_of(point) && amount(point) > 0)
      best.points.push_back({static_cast<double>(point.gpus), amount(point), point.best->text});
  if (!best.points.empty()) chart.series.push_back(std::move(best));
  return chart;
}

Section pictures_section(const SweepAnswer& answer) {
  Section section{"By GPUs", {}};
  const auto add = [&](Chart chart) {
    if (!chart.series.empty()) section.blocks.emplace_back(std::move(chart));
  };
  add(throughput_chart(answer));
  add(amount_chart(answer, "Time of the whole training",
                   {"time of the training", Quantity::seconds, false, true},
                   [](const SweepPointRecord& point) { return point.days * kSecondsOfDay; }));
  if (answer.price > 0)
    add(amount_chart(answer, "Cost of the whole training", {"cost", Quantity::number, false, true},
                     [](const SweepPointRecord& point) { return point.cost; }));
  std::vector<NamedOutcome> plans;
  for (const SweepPointRecord& point : answer.points)
    if (const Outcome* outcome = outcome_of(point); outcome && !outcome->breakdown_seconds.empty())
      plans.emplace_back(format_grouped(point.gpus) + " GPUs", outcome);
  if (!plans.empty()) add(parts_chart(plans));
  return section;
}

Section bullets(std::string label, const std::vector<std::string>& sentences) {
  Section section{std::move(label), {}};
  for (const std::string& sentence : sentences) section.blocks.emplace_back(Bullet{sentence});
  return section;
}

}  // namespace

Document document_of(const SweepAnswer& answer) {
  Document document{"autotune train", asked(answer), {}};
  document.add(answer_section(answer));
  document.add(bullets("Why", answer.reasons));
  document.add(pictures_section(answer));
  document.add(bullets("Assumed", answer.assumptions));
  document.add(sources_section(answer.question));
  Section next{"Next", {}};
  Question largest = answer.question;
  if (!answer.points.empty()) largest.gpus = answer.points.back().gpus;
  next.blocks.emplace_back(train_again_command(largest));
  document.add(std::move(next));
  return document;
}

}  // namespace tuner
