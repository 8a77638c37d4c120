// A document laid out for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "tuner/report/layout.h"

namespace tuner {
namespace {

constexpr int kLabelWidth = 14;
constexpr int kNarrow = 72;  // below, labels stand on lines of their own
constexpr int kUnlimited = 1 << 20;

std::string_view color_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::strong:
      return "1";
    case Tone::good:
      return "32";
    case Tone::bad:
      return "1;31";
    case Tone::faint:
      return "2";
  }
  return "";
}

// Lines of text below labels.
class Page {
 public:
  explicit Page(const ReportStyle& style)
      : style_(style), width_(std::clamp(style.width, 40, 100)) {}

  void begin(const Document& document) {
    const std::string verb = clean(document.verb);
    const int indent = width_ < kNarrow ? 2 : display_width(verb) + 2;
    begin_block(verb, indent);
    for (const std::string& line : document.asked) put(Sentence{line});
    end_block();
  }

  void section(const Section& section) {
    if (std::none_of(section.blocks.begin(), section.blocks.end(), has_text)) return;
    out_ += "\n";
    begin_block(clean(section.label), width_ < kNarrow ? 2 : kLabelWidth);
    for (const Block& block : section.blocks)
      std::visit([this](const auto& content) { put(content); }, block);
    end_block();
  }

  std::string text() && { return std::move(out_); }

 private:
  std::string clean(std::string_view text) const {
    return style_.ascii ? to_ascii(harmless(text)) : harmless(text);
  }
  int room() const { return width_ - indent_; }
  std::string paint(Tone tone, const std::string& text) const {
    if (!style_.color || tone == Tone::plain || text.empty()) return text;
    return fmt::format("\x1b[{}m{}\x1b[0m", color_of(tone), text);
  }

  void begin_block(std::string label, int indent) {
    label_ = std::move(label);
    indent_ = indent;
    if (display_width(label_) + 2 > indent_) end_block();
  }
  // Writes a label that has no line yet on its own.
  void end_block() {
    for (const std::string& line : wrap(label_, width_)) out_ += paint(Tone::strong, line) + "\n";
    label_.clear();
  }
  void line(const std::string& text, Tone tone = Tone::plain) {
    out_ += paint(Tone::strong, label_);
    out_.append(static_cast<size_t>(indent_ - display_width(label_)), ' ');
    label_.clear();
    out_ += paint(tone, text) + "\n";
  }

  void put(const Sentence& sentence) {
    for (const std::string& each : wrap(clean(sentence.text), room())) line(each, sentence.tone);
  }
  void put(const Bullet& bullet) {
    std::string lead = style_.ascii ? "* " : "• ";
    for (const std::string& each : wrap(clean(bullet.text), room() - 2)) {
      line(lead + each);
      lead = "  ";
    }
  }
  void put(const Table& raw) {
    Table table = raw;
    for (Column& column : table.columns) column.title = clean(column.title);
    for (Table::Row& row : table.rows) {
      for (std::string& cell : row.cells) cell = clean(cell);
      row.note = clean(row.note);
    }
    Tone tone = Tone::faint;  // of the titles
    const int width = style_.wide ? kUnlimited : room();
    for (const std::string& each : table_lines(table, width, style_.ascii)) {
      line(each, tone);
      tone = Tone::plain;
    }
  }
  void put(const Bars& bars) {
    int name_width = 0, amount_width = 0;
    double largest = 0;
    for (const Bars::Part& part : bars.parts) {
      name_width = std::max(name_width, display_width(clean(part.name)));
      amount_width = std::max(amount_width, display_width(clean(part.amount)));
      largest = std::max(largest, part.percent);
    }
    const std::string other_title = clean(bars.other_title);
    int other_width = display_width(other_title);
    for (const Bars::Part& part : bars.parts)
      other_width = std::max(other_width, display_width(clean(part.other)));
    constexpr int kPercentWidth = 7, kGaps = 6;
    name_width = std::min(name_width, room() / 2);
    // What is compared with goes first where there is too little room.
    if (name_width + kPercentWidth + amount_width + other_width + kGaps > room()) other_width = 0;
    const int other_room = other_width > 0 ? other_width + 2 : 0;
    const int bar_width =
        std::min(40, room() - name_width - amount_width - other_room - kPercentWidth - kGaps);
    if (other_width > 0)
      line(blanks(name_width + kPercentWidth + 4 + amount_width + other_room -
                  display_width(other_title)) +
               other_title,
           Tone::faint);
    for (const Bars::Part& part : bars.parts) {
      const std::string name = cut_to_width(clean(part.name), name_width, style_.ascii);
      std::string text = name + blanks(name_width - display_width(name));
      text += fmt::format("  {:5.1f} %  ", part.percent);
      const std::string amount = clean(part.amount);
      text += blanks(amount_width - display_width(amount)) + amount;
      const std::string other = other_width > 0 ? clean(part.other) : "";
      text += blanks(other_room - display_width(other)) + other;
      if (bar_width > 0 && largest > 0)
        text += "  " + bar(part.percent / largest, bar_width, style_.ascii);
      line(text);
    }
  }
  void put(const CommandLine& command);
  void put(const Chart& raw) {
    constexpr int kHeight = 12;
    if (!raw.in_text) return;
    Chart chart = raw;
    chart.x.title = clean(chart.x.title);
    chart.y.title = clean(chart.y.title);
    for (Chart::Series& series : chart.series) series.name = clean(series.name);
    for (Chart::Limit& limit : chart.limits) limit.name = clean(limit.name);
    for (const std::string& each : plot_lines(chart, room(), kHeight, style_.ascii))
      line(style_.ascii ? to_ascii(each) : each);
    if (!chart.note.empty()) put(Sentence{chart.note, Tone::faint});
  }
  void put(const Timeline&) {}

  static std::string blanks(int count) {
    return std::string(static_cast<size_t>(std::max(count, 0)), ' ');
  }

  const ReportStyle style_;
  const int width_;
  int indent_ = 0;
  std::string label_;  // not yet written
  std::string out_;
};

// Long commands go on behind a backslash, so that they can be pasted.
void Page::put(const CommandLine& command) {
  const int width = room() - 4;  // for an indent and " \\"
  std::vector<std::string> lines{""};
  for (const std::string& raw : command.words) {
    const std::string word = clean(raw);
    std::string& last = lines.back();
    if (last.empty())
      last = word;
    else if (display_width(last) + 1 + display_width(word) > width)
      lines.push_back(word);
    else
      last += " " + word;
  }
  const std::string comment = clean(command.purpose);
  const bool commented =
      !comment.empty() && lines.size() == 1 && display_width(lines.front() + comment) + 4 <= room();
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string end = i + 1 < lines.size() ? " \\" : "";
    // A single word may still be wider than a line.
    for (const std::string& piece : wrap(lines[i], width))
      line((i > 0 ? "  " : "") + piece + end + (commented ? "  # " + comment : ""));
  }
}

}  // namespace

bool has_text(const Block& block) {
  if (const auto* chart = std::get_if<Chart>(&block)) return chart->in_text;
  return !std::holds_alternative<Timeline>(block);
}

std::string render_document(const Document& document, const ReportStyle& style) {
  Page page(style);
  page.begin(document);
  for (const Section& section : document.sections) page.section(section);
  return std::move(page).text();
}

}  // namespace tuner
