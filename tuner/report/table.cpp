// Aligned columns and bars for terminals.
#include "tuner/report/table.h"

#include <algorithm>
#include <cmath>

namespace tuner {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 4;  // columns that a cut cell keeps
constexpr int kNoteIndent = 4;

std::vector<int> column_widths(const Table& table) {
  std::vector<int> widths;
  for (size_t column = 0; column < table.columns.size(); ++column) {
    int widest = display_width(table.columns[column].title);
    for (const Table::Row& row : table.rows)
      widest = std::max(widest, display_width(row.cells[column]));
    widths.push_back(widest);
  }
  return widths;
}

int total_width(const std::vector<int>& widths, const std::vector<size_t>& shown) {
  int sum = kGap * (static_cast<int>(shown.size()) - 1);
  for (const size_t column : shown) sum += widths[column];
  return sum;
}

// The columns that stay when those of the highest priority number go first.
std::vector<size_t> shown_columns(const Table& table, const std::vector<int>& widths, int width) {
  std::vector<size_t> shown;
  for (size_t column = 0; column < table.columns.size(); ++column) shown.push_back(column);
  const auto priority = [&](size_t column) { return table.columns[column].priority; };
  while (total_width(widths, shown) > width) {
    // Of equal ones the rightmost.
    const auto last = std::max_element(shown.rbegin(), shown.rend(), [&](size_t a, size_t b) {
      return priority(a) < priority(b);
    });
    if (last == shown.rend() || priority(*last) == 0) break;
    shown.erase(std::next(last).base());
  }
  return shown;
}

// Makes texts narrower; numbers, which stand to the right, only where nothing else is left, as a
// number that is cut misleads.
void narrow(const Table& table, std::vector<int>& widths, const std::vector<size_t>& shown,
            int width) {
  const auto room = [&](size_t column) {
    return table.columns[column].right ? 0 : widths[column] - kNarrowest;
  };
  while (total_width(widths, shown) > width) {
    size_t widest = *std::max_element(shown.begin(), shown.end(),
                                      [&](size_t a, size_t b) { return room(a) < room(b); });
    if (room(widest) <= 0)
      widest = *std::max_element(shown.begin(), shown.end(),
                                 [&](size_t a, size_t b) { return widths[a] < widths[b]; });
    if (widths[widest] <= 1) return;
    --widths[widest];
  }
}

}  // namespace

std::vector<std::string> table_lines(const Table& table, int width, bool ascii) {
  std::vector<int> widths = column_widths(table);
  const std::vector<size_t> shown = shown_columns(table, widths, width);
  narrow(table, widths, shown, width);
  const auto line_of = [&](const auto& cell) {
    std::string line;
    for (const size_t column : shown) {
      if (column != shown.front()) line.append(kGap, ' ');
      const std::string text = cut_to_width(cell(column), widths[column], ascii);
      const std::string padding(static_cast<size_t>(widths[column] - display_width(text)), ' ');
      line += table.columns[column].right ? padding + text : text + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  std::vector<std::string> lines;
  lines.push_back(line_of([&](size_t column) { return table.columns[column].title; }));
  for (const Table::Row& row : table.rows) {
    lines.push_back(line_of([&](size_t column) { return row.cells[column]; }));
    for (const std::string& line : wrap(row.note, width - kNoteIndent))
      lines.push_back(std::string(kNoteIndent, ' ') + line);
  }
  return lines;
}

std::string bar(double fraction, int width, bool ascii) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(fraction > 0)) return "";
  fraction = std::min(fraction, 1.0);
  std::string text;
  if (ascii) {
    text.append(static_cast<size_t>(std::max(1.0, std::round(fraction * width))), '#');
    return text;
  }
  const int eighths = std::max(1, static_cast<int>(std::lround(fraction * width * 8)));
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text;
}

}  // namespace tuner
