// A document as a web page, and the pieces that its pictures are made of.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tuner/report/document.h"

namespace tuner {

// Whether this build can draw pages: it needs Chart.js.
bool has_html();
// One page without links to anything outside. Throws Error (environment) where has_html() is false.
std::string render_document_html(const Document& document);

// Text that a page shows as it is, within an element or a quoted attribute.
std::string html_escaped(std::string_view text);
// The charts as JSON that can stand within a script element.
std::string chart_data(const std::vector<const Chart*>& charts);
// A drawing of a timeline: a lane below the other, time from left to right.
std::string timeline_svg(const Timeline& timeline);

}  // namespace tuner
