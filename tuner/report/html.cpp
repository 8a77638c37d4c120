// A document as one web page that needs nothing else: texts and tables here, charts by Chart.js.
#include "tuner/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/errors.h"
#include "tuner/report/assets.h"
#include "tuner/report/layout.h"

namespace tuner {

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : harmless(text)) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

namespace {

std::string_view class_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::strong:
      return "strong";
    case Tone::good:
      return "good";
    case Tone::bad:
      return "bad";
    case Tone::faint:
      return "faint";
  }
  return "";
}

bool is_picture(const Block& block) {
  return std::holds_alternative<Chart>(block) || std::holds_alternative<Timeline>(block);
}

// What stands in the page one after the other; charts only leave their place.
class Page {
 public:
  void put(const Sentence& sentence) {
    end_list();
    const std::string_view tone = class_of(sentence.tone);
    body_ += tone.empty() ? "<p>" : fmt::format("<p class=\"{}\">", tone);
    body_ += html_escaped(sentence.text) + "</p>\n";
  }
  void put(const Bullet& bullet) {
    if (!in_list_) body_ += "<ul>\n";
    in_list_ = true;
    body_ += "<li>" + html_escaped(bullet.text) + "</li>\n";
  }
  void put(const Table& table);
  void put(const Bars& bars);
  void put(const CommandLine& command) {
    end_list();
    std::string line;
    for (const std::string& word : command.words) line += (line.empty() ? "" : " ") + word;
    if (!command.purpose.empty())
      body_ += "<p class=\"note\">" + html_escaped(command.purpose) + ":</p>\n";
    body_ += "<pre>" + html_escaped(line) + "</pre>\n";
  }
  void put(const Chart& chart) {
    body_ += fmt::format(
        "<h3>{0}</h3>\n<div class=\"canvas{1}\"><canvas data-chart=\"{2}\" role=\"img\" "
        "aria-label=\"{0}\"></canvas></div>\n",
        html_escaped(chart.title), chart.kind == Chart::Kind::plane ? " tall" : "", charts_.size());
    put_note(chart.note);
    body_ += fmt::format("<details data-chart=\"{}\"><summary>The numbers</summary></details>\n",
                         charts_.size());
    charts_.push_back(&chart);
  }
  void put(const Timeline& timeline) {
    body_ += "<h3>" + html_escaped(timeline.title) + "</h3>\n<p class=\"keys\">";
    for (size_t kind = 0; kind < timeline.kinds.size(); ++kind)
      body_ += fmt::format("<i class=\"k{}\"></i>{}", kind, html_escaped(timeline.kinds[kind]));
    body_ += "</p>\n<div class=\"scroll\">" + timeline_svg(timeline) + "</div>\n";
    put_note(timeline.note);
  }

  void section(const Section& section, bool pictures) {
    std::string label = html_escaped(section.label);
    std::replace(label.begin(), label.end(), '\n', ' ');
    body_ += "<section class=\"card\">\n<h2>" + label + "</h2>\n";
    for (const Block& block : section.blocks)
      if (is_picture(block) == pictures)
        std::visit([this](const auto& content) { put(content); }, block);
    end_list();
    body_ += "</section>\n";
  }
  void picture(const Block& block) {
    const auto* chart = std::get_if<Chart>(&block);
    const bool wide = chart == nullptr || chart->wide || chart->categories.size() > 12;
    body_ += wide ? "<section class=\"card wide\">\n" : "<section class=\"card\">\n";
    std::visit([this](const auto& content) { put(content); }, block);
    body_ += "</section>\n";
  }
  void raw(std::string_view text) { body_ += text; }

  const std::vector<const Chart*>& charts() const { return charts_; }
  const std::string& body() const { return body_; }

 private:
  void end_list() {
    if (in_list_) body_ += "</ul>\n";
    in_list_ = false;
  }
  void put_note(const std::string& note) {
    if (!note.empty()) body_ += "<p class=\"note\">" + html_escaped(note) + "</p>\n";
  }

  std::string body_;
  bool in_list_ = false;
  std::vector<const Chart*> charts_;
};

// A row and its note are one body, so that sorting keeps them together.
void Page::put(const Table& table) {
  constexpr int kWideText = 24;  // columns from which a cell may break its line
  end_list();
  body_ += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const Column& column : table.columns)
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", column.right ? " class=\"right\"" : "",
                         html_escaped(column.title));
  body_ += "</tr></thead>\n";
  for (const Table::Row& row : table.rows) {
    body_ += "<tbody><tr>";
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const bool right = i < table.columns.size() && table.columns[i].right;
      const bool wide = !right && display_width(harmless(row.cells[i])) > kWideText;
      body_ += fmt::format("<td{}>{}</td>",
                           right  ? " class=\"right\""
                           : wide ? " class=\"text\""
                                  : "",
                           html_escaped(row.cells[i]));
    }
    body_ += "</tr>";
    if (!row.note.empty())
      body_ += fmt::format("<tr class=\"note\"><td colspan=\"{}\">{}</td></tr>",
                           table.columns.size(), html_escaped(row.note));
    body_ += "</tbody>\n";
  }
  body_ += "</table></div>\n";
}

void Page::put(const Bars& bars) {
  end_list();
  double largest = 0;
  for (const Bars::Part& part : bars.parts) largest = std::max(largest, part.percent);
  body_ +=
      "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">part</th><th scope=\"col\" "
      "class=\"right\">share</th><th scope=\"col\" class=\"right\">amount</th>";
  if (!bars.other_title.empty())
    body_ += "<th scope=\"col\" class=\"right\">" + html_escaped(bars.other_title) + "</th>";
  body_ += "<th scope=\"col\"> </th></tr></thead>\n";
  for (const Bars::Part& part : bars.parts) {
    body_ += fmt::format(
        "<tbody><tr><td>{}</td><td class=\"right\">{:.1f} %</td><td class=\"right\">{}</td>",
        html_escaped(part.name), part.percent, html_escaped(part.amount));
    if (!bars.other_title.empty())
      body_ += "<td class=\"right\">" + html_escaped(part.other) + "</td>";
    body_ += fmt::format(
        "<td class=\"bars\"><span class=\"bar\" "
        "style=\"width:{:.1f}%\"></span></td></tr></tbody>\n",
        largest > 0 ? 100 * part.percent / largest : 0);
  }
  body_ += "</table></div>\n";
}

void put_head(const Document& document, Page& page) {
  page.raw("<header>\n<div class=\"verb\">" + html_escaped(document.verb) + "</div>\n<h1>" +
           html_escaped(document.asked.empty() ? document.verb : document.asked.front()) +
           "</h1>\n<div class=\"asked\">\n");
  for (size_t i = 1; i < document.asked.size(); ++i) page.put(Sentence{document.asked[i]});
  page.raw("</div>\n</header>\n");
  if (document.figures.empty()) return;
  page.raw("<dl class=\"figures\">\n");
  for (const Figure& figure : document.figures)
    page.raw(fmt::format(
        "<div class=\"figure\"><dt>{}</dt><dd class=\"value\">{}</dd><dd "
        "class=\"detail\">{}</dd></div>\n",
        html_escaped(figure.name), html_escaped(figure.value), html_escaped(figure.detail)));
  page.raw("</dl>\n");
}

// The answer, then all pictures, then what else there is to read.
void put_sections(const Document& document, Page& page) {
  const size_t lead = std::min(document.lead, document.sections.size());
  page.raw("<div class=\"lead\">\n");
  for (size_t i = 0; i < lead; ++i) page.section(document.sections[i], false);
  page.raw("</div>\n");
  bool pictures = false;
  for (const Section& section : document.sections)
    for (const Block& block : section.blocks) {
      if (!is_picture(block)) continue;
      if (!pictures) page.raw("<h2 class=\"group\">In pictures</h2>\n<div class=\"pictures\">\n");
      pictures = true;
      page.picture(block);
    }
  if (pictures) page.raw("</div>\n");
  page.raw("<h2 class=\"group\">In detail</h2>\n<div class=\"rest\">\n");
  for (size_t i = lead; i < document.sections.size(); ++i) {
    const auto& blocks = document.sections[i].blocks;
    if (!std::all_of(blocks.begin(), blocks.end(), is_picture))
      page.section(document.sections[i], false);
  }
  page.raw("</div>\n");
}

}  // namespace

std::string_view report_asset(std::string_view name) {
  for (const EmbeddedFile& file : page_files())
    if (file.name.substr(file.name.rfind('/') + 1) == name) return file.text;
  return {};
}

bool has_html() { return !report_asset("chart.min.js").empty(); }

std::string render_document_html(const Document& document) {
  if (!has_html())
    throw engine::Error(engine::ExitCode::environment,
                        "this build draws no web pages, as Chart.js was missing when it was made; "
                        "install libjs-chart.js and build again, or take --format markdown");
  Page page;
  put_head(document, page);
  put_sections(document, page);
  const std::string title = html_escaped(
      document.asked.empty() ? document.verb : document.verb + ": " + document.asked.front());
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      // Nothing is loaded from anywhere, whatever a name says.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
      "'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  out += title;
  out += "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n";
  out += report_asset("report.css");
  out += "</style>\n</head>\n<body>\n<main>\n" + page.body();
  out +=
      "<noscript><p class=\"bad\">Charts and sorting need JavaScript, which this page brings "
      "along.</p></noscript>\n</main>\n<script type=\"application/json\" id=\"charts\">";
  out += chart_data(page.charts());
  out += "</script>\n<script>\n";
  out += report_asset("chart.min.js");
  out += "\n</script>\n<script>\n";
  out += report_asset("report.js");
  out += "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace tuner
