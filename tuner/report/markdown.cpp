// A document as Markdown (CommonMark with the tables of GitHub).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tuner/report/layout.h"

namespace tuner {
namespace {

std::string line_start_escaped(std::string text) {
  if (text.empty()) return text;
  if (text.front() == '-' || text.front() == '+' || text.front() == '=') return "\\" + text;
  size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
  // "1." and "1)" would start a list.
  if (digits > 0 && digits < text.size() && (text[digits] == '.' || text[digits] == ')'))
    text.insert(digits, "\\");
  return text;
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

void put(std::string& out, const Sentence& sentence) {
  const std::string text = line_start_escaped(markdown_escaped(sentence.text));
  const bool strong = sentence.tone == Tone::strong || sentence.tone == Tone::bad;
  out += (strong ? "**" + text + "**" : text) + "\n\n";
}

void put(std::string& out, const Bullet& bullet) {
  out += "- " + line_start_escaped(markdown_escaped(bullet.text)) + "\n";
}

void put(std::string& out, const Table& table) {
  bool notes = false;
  for (const Table::Row& row : table.rows) notes = notes || !row.note.empty();
  std::vector<std::string> titles, rules;
  for (const Column& column : table.columns) {
    titles.push_back(markdown_escaped(column.title));
    rules.emplace_back(column.right ? "---:" : "---");
  }
  if (notes) {
    titles.emplace_back("note");
    rules.emplace_back("---");
  }
  out += table_row(titles) + table_row(rules);
  for (const Table::Row& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row.cells) cells.push_back(markdown_escaped(cell));
    if (notes) cells.push_back(markdown_escaped(row.note));
    out += table_row(cells);
  }
  out += "\n";
}

void put(std::string& out, const Bars& bars) {
  Table table{{{"part"}, {"share", true}, {"amount", true}}, {}};
  if (!bars.other_title.empty()) table.columns.push_back({bars.other_title, true});
  for (const Bars::Part& part : bars.parts) {
    table.rows.push_back({{part.name, fmt::format("{:.1f} %", part.percent), part.amount}, ""});
    if (!bars.other_title.empty()) table.rows.back().cells.push_back(part.other);
  }
  put(out, table);
}

void put(std::string& out, const CommandLine& command) {
  std::string line;
  for (const std::string& word : command.words) line += (line.empty() ? "" : " ") + harmless(word);
  out += "```sh\n" + line + "\n```\n\n";
}

// Plots of a terminal; other pictures are left out, as their numbers stand in tables.
void put(std::string& out, const Chart& raw) {
  constexpr int kWidth = 80, kHeight = 12;
  if (!raw.in_text) return;
  Chart chart = raw;
  for (std::string* text : {&chart.x.title, &chart.y.title}) *text = harmless(*text);
  for (Chart::Series& series : chart.series) series.name = harmless(series.name);
  for (Chart::Limit& limit : chart.limits) limit.name = harmless(limit.name);
  out += "```\n";
  for (const std::string& line : plot_lines(chart, kWidth, kHeight, false)) out += line + "\n";
  out += "```\n\n";
  if (!chart.note.empty()) put(out, Sentence{chart.note});
}
void put(std::string&, const Timeline&) {}

}  // namespace

std::string markdown_escaped(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_[]|~#${}!";
  const std::string clean = harmless(text);
  std::string escaped;
  for (size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    const std::string_view rest = std::string_view(clean).substr(i);
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '@')
      escaped += "&#64;";
    else if (rest.starts_with("://"))
      escaped += "&#58;";
    else if (rest.starts_with("www.") || rest.starts_with("WWW."))
      escaped += "&#119;";
    else if (kMarkup.find(c) != std::string_view::npos)
      escaped += std::string("\\") + c;
    else
      escaped += c;
  }
  return escaped;
}

std::string render_document_markdown(const Document& document) {
  std::string out = "# " + markdown_escaped(document.verb) + "\n\n";
  for (const std::string& line : document.asked) put(out, Bullet{line});
  for (const Section& section : document.sections) {
    if (std::none_of(section.blocks.begin(), section.blocks.end(), has_text)) continue;
    if (!out.ends_with("\n\n")) out += "\n";
    out += "## " + markdown_escaped(section.label) + "\n\n";
    for (const Block& block : section.blocks) {
      if (!std::holds_alternative<Bullet>(block) && !out.ends_with("\n\n")) out += "\n";
      std::visit([&out](const auto& content) { put(out, content); }, block);
    }
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace tuner
