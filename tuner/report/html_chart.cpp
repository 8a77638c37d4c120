// Charts as data for the page's script, and timelines as drawings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/units.h"
#include "tuner/report/html.h"
#include "tuner/report/table.h"

namespace tuner {
namespace {

using nlohmann::json;

// Six digits are more than a picture shows.
double rounded(double value) {
  return std::isfinite(value) ? std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr) : 0;
}

json interval_json(const engine::Interval& interval) {
  return json::array({rounded(interval.low), rounded(interval.high)});
}

json axis_json(const Chart::Axis& axis) {
  constexpr const char* kQuantities[] = {"number", "seconds", "bytes"};
  return {{"title", harmless(axis.title)},
          {"quantity", kQuantities[static_cast<int>(axis.quantity)]},
          {"logarithmic", axis.logarithmic},
          {"from_zero", axis.from_zero}};
}

json point_json(const Chart::Point& point) {
  json out = {{"x", rounded(point.x)}, {"y", rounded(point.y)}};
  if (!point.label.empty()) out["label"] = harmless(point.label);
  if (point.x_interval.high > 0) out["x_interval"] = interval_json(point.x_interval);
  if (point.y_interval.high > 0) out["y_interval"] = interval_json(point.y_interval);
  if (point.stands_for != 1) out["stands_for"] = point.stands_for;
  return out;
}

json chart_json(const Chart& chart) {
  constexpr const char* kMarks[] = {"faint", "point", "strong", "line"};
  json series = json::array();
  for (const Chart::Series& one : chart.series) {
    json points = json::array();
    for (const Chart::Point& point : one.points) points.push_back(point_json(point));
    series.push_back({{"name", harmless(one.name)},
                      {"mark", kMarks[static_cast<int>(one.mark)]},
                      {"points", std::move(points)}});
  }
  json limits = json::array(), categories = json::array();
  for (const Chart::Limit& limit : chart.limits)
    limits.push_back(
        {{"name", harmless(limit.name)}, {"value", rounded(limit.value)}, {"of_x", limit.of_x}});
  for (const std::string& category : chart.categories) categories.push_back(harmless(category));
  return {{"kind", chart.kind == Chart::Kind::bars ? "bars" : "plane"},
          {"x", axis_json(chart.x)},
          {"y", axis_json(chart.y)},
          {"categories", std::move(categories)},
          {"series", std::move(series)},
          {"limits", std::move(limits)},
          {"diagonal", chart.diagonal}};
}

}  // namespace

std::string chart_data(const std::vector<const Chart*>& charts) {
  json list = json::array();
  for (const Chart* chart : charts) list.push_back(chart_json(*chart));
  const std::string text = list.dump(-1, ' ', true, json::error_handler_t::replace);
  // Neither "</script" nor "<!--" may stand in a script element.
  std::string escaped;
  for (const char c : text) escaped += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return escaped;
}

namespace {

constexpr double kLabelRoom = 62, kPlotWidth = 868, kBusyRoom = 70;
constexpr double kLaneHeight = 20, kLaneGap = 3;

double lane_top(int lane) { return lane * (kLaneHeight + kLaneGap); }

// Passes of one look as one path, which keeps the page small.
std::map<std::string, std::string> paths_of(const Timeline& timeline, double scale) {
  std::map<std::string, std::string> paths;
  for (const Timeline::Pass& pass : timeline.passes) {
    const double left = kLabelRoom + pass.start * scale;
    // A hair of space between neighbours.
    const double width = std::max(0.2, (pass.end - pass.start) * scale - 0.4);
    paths[fmt::format("k{}{}", pass.kind, pass.odd ? " odd" : "")] += fmt::format(
        "M{:.1f} {:g}h{:.1f}v{:g}H{:.1f}z", left, lane_top(pass.lane), width, kLaneHeight, left);
  }
  return paths;
}

std::string pass_texts(const Timeline& timeline, double scale) {
  constexpr double kDigitWidth = 5.5, kMargin = 2;
  std::string out;
  for (const Timeline::Pass& pass : timeline.passes) {
    const double width = (pass.end - pass.start) * scale;
    if (static_cast<double>(pass.text.size()) * kDigitWidth + kMargin > width) continue;
    out += fmt::format("<text class=\"in\" x=\"{:.1f}\" y=\"{:g}\">{}</text>",
                       kLabelRoom + (pass.start * scale) + width / 2, lane_top(pass.lane) + 13.5,
                       html_escaped(pass.text));
  }
  return out;
}

std::string lanes(const Timeline& timeline) {
  std::string out;
  for (size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    const double top = lane_top(static_cast<int>(lane));
    out += fmt::format(
        "<rect class=\"lane\" x=\"{0:g}\" y=\"{1:g}\" width=\"{2:g}\" height=\"{3:g}\"/>"
        "<text x=\"0\" y=\"{4:g}\">{5}</text><text x=\"{6:g}\" y=\"{4:g}\">{7}</text>",
        kLabelRoom, top, kPlotWidth, kLaneHeight, top + 14, html_escaped(timeline.lanes[lane].name),
        kLabelRoom + kPlotWidth + 6, html_escaped(timeline.lanes[lane].detail));
  }
  return out;
}

std::string time_marks(double length, double top) {
  constexpr int kMarks = 5;
  std::string out;
  for (int i = 0; i <= kMarks; ++i)
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:g}\" text-anchor=\"{}\">{}</text>",
                       kLabelRoom + kPlotWidth * i / kMarks, top + 14,
                       i == 0        ? "start"
                       : i == kMarks ? "end"
                                     : "middle",
                       i == 0 ? "0" : html_escaped(engine::format_seconds(length * i / kMarks)));
  return out;
}

}  // namespace

std::string timeline_svg(const Timeline& timeline) {
  double length = 0;
  for (const Timeline::Pass& pass : timeline.passes) length = std::max(length, pass.end);
  if (!(length > 0)) return "";
  const double scale = kPlotWidth / length;
  const double bottom = lane_top(static_cast<int>(timeline.lanes.size()));
  std::string out = fmt::format(
      "<svg class=\"timeline\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\">",
      kLabelRoom + kPlotWidth + kBusyRoom, bottom + 20, html_escaped(timeline.title));
  out += lanes(timeline);
  for (const auto& [look, path] : paths_of(timeline, scale))
    out += fmt::format("<path class=\"{}\" d=\"{}\"/>", look, path);
  return out + pass_texts(timeline, scale) + time_marks(length, bottom) + "</svg>";
}

}  // namespace tuner
