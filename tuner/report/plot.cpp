// Plots in characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/units.h"
#include "tuner/report/chart.h"
#include "tuner/report/table.h"

namespace tuner {

std::string quantity_text(Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::seconds:
      return engine::format_seconds(value);
    case Quantity::bytes:
      return engine::format_bytes(value);
    case Quantity::number:
      break;
  }
  if (value >= 1e6) return engine::format_count(value);
  if (value >= 1000) return engine::format_grouped(std::llround(value));
  return fmt::format("{:.4g}", value);
}

namespace {

// Values along one axis to places on it.
class Scale {
 public:
  Scale(const Chart::Axis& axis, double low, double high, int places)
      : logarithmic_(axis.logarithmic && low > 0), places_(places) {
    low_ = at(axis.from_zero && !logarithmic_ ? std::min(low, 0.0) : low);
    high_ = at(high);
    if (!(high_ > low_)) high_ = low_ + std::max(1e-12, std::abs(low_) * 0.1);
  }
  int place(double value) const {
    const double share = (at(value) - low_) / (high_ - low_);
    return std::clamp(static_cast<int>(std::lround(share * (places_ - 1))), 0, places_ - 1);
  }
  double value(int place) const {
    const double scaled = low_ + (high_ - low_) * place / (places_ - 1);
    return logarithmic_ ? std::exp(scaled) : scaled;
  }

 private:
  double at(double value) const { return logarithmic_ ? std::log(value) : value; }
  bool logarithmic_;
  int places_;
  double low_ = 0, high_ = 0;
};

struct Glyphs {
  std::string_view faint, strong, across, down, corner, horizontal, vertical;
};
constexpr Glyphs kUnicode = {"·", "●", "─", "┊", "└", "─", "│"};
constexpr Glyphs kAscii = {".", "@", "-", ":", "+", "-", "|"};

// The last ones are drawn over the first.
constexpr Chart::Mark kOrder[] = {Chart::Mark::faint, Chart::Mark::line, Chart::Mark::point,
                                  Chart::Mark::strong};

// Of a series; those of plain points take turns.
std::string_view glyph_of(const Glyphs& glyphs, const Chart& chart, const Chart::Series& series) {
  constexpr std::string_view kPoints[] = {"o", "x", "+", "*"};
  if (series.mark == Chart::Mark::faint) return glyphs.faint;
  if (series.mark == Chart::Mark::strong) return glyphs.strong;
  size_t place = 0;
  for (const Chart::Series& other : chart.series) {
    if (&other == &series) break;
    place += other.mark == Chart::Mark::point || other.mark == Chart::Mark::line ? 1 : 0;
  }
  return kPoints[place % std::size(kPoints)];
}

// The ends of all points along one axis, and of the limits that lie near them.
std::pair<double, double> ends(const Chart& chart, bool of_x) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Chart::Series& series : chart.series)
    for (const Chart::Point& point : series.points) {
      low = std::min(low, of_x ? point.x : point.y);
      high = std::max(high, of_x ? point.x : point.y);
    }
  for (const Chart::Limit& limit : chart.limits)
    if (limit.of_x == of_x && limit.value > 0 && limit.value < 2 * high && limit.value > low / 2) {
      low = std::min(low, limit.value);
      high = std::max(high, limit.value);
    }
  return {low, high};
}

using Canvas = std::vector<std::vector<std::string>>;

void draw_limits(const Chart& chart, const Scale& x, const Scale& y, const Glyphs& glyphs,
                 Canvas& canvas) {
  const auto [x_low, x_high] = ends(chart, true);
  const auto [y_low, y_high] = ends(chart, false);
  const int height = static_cast<int>(canvas.size());
  for (const Chart::Limit& limit : chart.limits) {
    if (limit.of_x && limit.value >= x_low && limit.value <= x_high)
      for (auto& row : canvas) row[static_cast<size_t>(x.place(limit.value))] = glyphs.down;
    if (!limit.of_x && limit.value >= y_low && limit.value <= y_high)
      for (std::string& cell : canvas[static_cast<size_t>(height - 1 - y.place(limit.value))])
        cell = glyphs.across;
  }
}

Canvas drawn(const Chart& chart, const Scale& x, const Scale& y, int width, int height,
             const Glyphs& glyphs) {
  Canvas canvas(static_cast<size_t>(height),
                std::vector<std::string>(static_cast<size_t>(width), " "));
  draw_limits(chart, x, y, glyphs, canvas);
  for (const Chart::Mark mark : kOrder)
    for (const Chart::Series& series : chart.series)
      if (series.mark == mark)
        for (const Chart::Point& point : series.points)
          canvas[static_cast<size_t>(height - 1 - y.place(point.y))]
                [static_cast<size_t>(x.place(point.x))] = glyph_of(glyphs, chart, series);
  return canvas;
}

// "● best  o runners-up  · all that fit  ┊ budget"
std::string key(const Chart& chart, const Glyphs& glyphs) {
  std::string text;
  for (const Chart::Series& series : chart.series)
    if (!series.points.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : "  ", glyph_of(glyphs, chart, series),
                          series.name);
  for (const Chart::Limit& limit : chart.limits)
    text += fmt::format("  {} {}", limit.of_x ? glyphs.down : glyphs.across, limit.name);
  return text;
}

std::string blanks(int count) { return std::string(static_cast<size_t>(std::max(count, 0)), ' '); }

}  // namespace

std::vector<std::string> plot_lines(const Chart& chart, int width, int height, bool ascii) {
  const Glyphs& glyphs = ascii ? kAscii : kUnicode;
  const auto [x_low, x_high] = ends(chart, true);
  const auto [y_low, y_high] = ends(chart, false);
  if (!(x_high >= x_low) || !(y_high >= y_low)) return {};
  const Scale y(chart.y, y_low, y_high, height);
  std::vector<std::string> marks;
  int mark_width = 0;
  for (int row = 0; row < height; ++row) {
    const bool named = row == 0 || row == height - 1 || row == height / 2;
    marks.push_back(named ? quantity_text(chart.y.quantity, y.value(height - 1 - row)) : "");
    mark_width = std::max(mark_width, display_width(marks.back()));
  }
  const int columns = std::max(10, width - mark_width - 2);
  const Scale x(chart.x, x_low, x_high, columns);
  std::vector<std::string> lines{chart.y.title};
  const Canvas canvas = drawn(chart, x, y, columns, height, glyphs);
  for (int row = 0; row < height; ++row) {
    const std::string& mark = marks[static_cast<size_t>(row)];
    std::string line = blanks(mark_width - display_width(mark)) + mark + " ";
    line += glyphs.vertical;
    for (const std::string& cell : canvas[static_cast<size_t>(row)]) line += cell;
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  std::string axis = blanks(mark_width + 1) + std::string(glyphs.corner);
  for (int i = 0; i < columns; ++i) axis += glyphs.horizontal;
  lines.push_back(std::move(axis));
  const std::string left = quantity_text(chart.x.quantity, x.value(0));
  const std::string right = quantity_text(chart.x.quantity, x.value(columns - 1));
  const int room = columns - display_width(left) - display_width(right);
  const std::string title = cut_to_width(chart.x.title, std::max(room - 2, 0), ascii);
  const int before = (room - display_width(title)) / 2;
  lines.push_back(blanks(mark_width + 2) + left + blanks(before) + title +
                  blanks(room - before - display_width(title)) + right);
  for (std::string& line : wrap(key(chart, glyphs), width)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace tuner
