// The pictures of `autotune infer`.
#include <fmt/format.h>

#include <algorithm>

#include "tuner/model/serve_model.h"
#include "tuner/report/phrases.h"
#include "tuner/report/serve_answer.h"
#include "tuner/search/serve_explain.h"

namespace tuner {

std::string serve_part_title(const std::string& name) {
  for (size_t i = 0; i < kServePartNames.size(); ++i)
    if (kServePartNames[i] == name)
      return std::string(tuner::plain_name(static_cast<ServePart>(i)));
  return name;
}

namespace {

using Pick = const ServeQuantity& (*)(const ServeRecord&);

Chart::Point point_of(const ServeRecord& record, Pick pick) {
  const ServeQuantity& time = pick(record);
  Chart::Point point{time.value, record.throughput.value, record.text};
  point.x_interval = time.interval;
  return point;
}

Chart frontier_chart(const InferAnswer& answer, const std::string& name,
                     const std::optional<double>& budget, Pick pick) {
  Chart chart;
  chart.title = "Throughput against " + name;
  chart.x = {name, Quantity::seconds};
  chart.y = {"tokens/s"};
  Chart::Series frontier{"frontier", Chart::Mark::line, {}};
  for (const ServeRecord& record : answer.frontier) {
    Chart::Point point = point_of(record, pick);
    point.x_interval = {};  // one error bar a point would hide the line
    frontier.points.push_back(std::move(point));
  }
  std::stable_sort(frontier.points.begin(), frontier.points.end(),
                   [](const auto& a, const auto& b) { return a.x < b.x; });
  Chart::Series others{"runners-up", Chart::Mark::point, {}}, best{"best", Chart::Mark::strong, {}};
  for (const ServeRunnerUpRecord& other : answer.runners_up)
    others.points.push_back(point_of(other.record, pick));
  best.points.push_back(point_of(*answer.best, pick));
  chart.series = {std::move(frontier), std::move(others), std::move(best)};
  std::erase_if(chart.series, [](const Chart::Series& series) { return series.points.empty(); });
  if (budget) chart.limits.push_back({"budget", *budget, true});
  if (answer.question.tokens_per_second)
    chart.limits.push_back({"throughput floor", *answer.question.tokens_per_second});
  return chart;
}

// The best plan and the runners-up, under their names in the table.
std::vector<std::pair<std::string, const ServeRecord*>> named_records(const InferAnswer& answer) {
  std::vector<std::pair<std::string, const ServeRecord*>> records;
  records.emplace_back(answer.meets_budget ? "best" : "nearest", &*answer.best);
  for (size_t i = 0; i < answer.runners_up.size(); ++i)
    records.emplace_back(fmt::format("{}", i + 2), &answer.runners_up[i].record);
  return records;
}

// A stacked bar for each record; `parts` tells names and amounts.
template <class Parts>
Chart stacked(const InferAnswer& answer, std::string title, Chart::Axis axis, Parts parts) {
  Chart chart;
  chart.kind = Chart::Kind::bars;
  chart.title = std::move(title);
  chart.x = {"plan"};
  chart.y = std::move(axis);
  const auto records = named_records(answer);
  for (size_t place = 0; place < records.size(); ++place) {
    chart.categories.push_back(records[place].first);
    for (const auto& [name, amount] : parts(*records[place].second)) {
      auto series = std::find_if(
          chart.series.begin(), chart.series.end(),
          [&, &wanted = name](const Chart::Series& one) { return one.name == wanted; });
      if (series == chart.series.end())
        series = chart.series.insert(series, {name, Chart::Mark::point, {}});
      // A place for every plan before this one.
      while (series->points.size() < place)
        series->points.push_back({static_cast<double>(series->points.size()), 0});
      series->points.push_back({static_cast<double>(place), amount});
    }
  }
  std::erase_if(chart.series, [](const Chart::Series& series) {
    return std::all_of(series.points.begin(), series.points.end(),
                       [](const Chart::Point& point) { return !(point.y > 0); });
  });
  return chart;
}

}  // namespace

std::vector<Chart> frontier_charts(const InferAnswer& answer) {
  const ServeQuestionRecord& q = answer.question;
  std::vector<Chart> charts;
  const auto add = [&](const std::string& name, const std::optional<double>& budget, Pick pick) {
    charts.push_back(frontier_chart(answer, name, budget, pick));
  };
  add("latency", q.latency, [](const ServeRecord& r) -> const ServeQuantity& { return r.latency; });
  if (q.ttft)
    add("TTFT", q.ttft, [](const ServeRecord& r) -> const ServeQuantity& { return r.ttft; });
  if (q.tpot)
    add("TPOT", q.tpot, [](const ServeRecord& r) -> const ServeQuantity& { return r.tpot; });
  charts.front().in_text = true;
  return charts;
}

Chart latency_chart(const InferAnswer& answer) {
  return stacked(answer, "Where the latency goes",
                 {"latency of a request", Quantity::seconds, false, true},
                 [](const ServeRecord& record) {
                   std::vector<std::pair<std::string, double>> parts;
                   for (size_t i = 0; i < record.prefill.size(); ++i)
                     parts.emplace_back(serve_part_title(record.prefill[i].first),
                                        record.prefill[i].second + record.decode[i].second);
                   parts.emplace_back("waiting", record.waiting);
                   return parts;
                 });
}

Chart serve_memory_chart(const InferAnswer& answer) {
  Chart chart = stacked(answer, "Memory of a GPU", {"memory", Quantity::bytes, false, true},
                        [](const ServeRecord& record) { return record.memory; });
  if (answer.best->capacity_bytes > 0)
    chart.limits.push_back({"capacity", answer.best->capacity_bytes});
  return chart;
}

}  // namespace tuner
