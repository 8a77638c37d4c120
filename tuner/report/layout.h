// Layouts of documents, and the escaping each needs.
#pragma once
#include <string>
#include <string_view>

#include "tuner/report/answer.h"
#include "tuner/report/compare.h"
#include "tuner/report/document.h"
#include "tuner/report/report.h"
#include "tuner/report/serve_answer.h"

namespace tuner {

// Throws InputError for an answer of an unknown schema, and for one that cannot be read.
Document document_of_answer(const nlohmann::json& answer);

// Whether anything of the block stands in text: of pictures only the plots do.
bool has_text(const Block& block);

std::string render_document(const Document& document, const ReportStyle& style);
std::string render_document_markdown(const Document& document);

// Text that Markdown shows as it is: no markup, HTML, web link or image comes of it.
std::string markdown_escaped(std::string_view text);

std::string csv_of(const TrainAnswer& answer);
std::string csv_of(const EstimateAnswer& answer);
std::string csv_of(const SizeAnswer& answer);
std::string csv_of(const SweepAnswer& answer);
std::string csv_of(const CompareAnswer& answer);
std::string csv_of(const InferAnswer& answer);
std::string csv_of(const ServeEstimateAnswer& answer);

// One field of a CSV line, quoted where it must be; what a spreadsheet would take for a formula
// begins with an apostrophe.
std::string csv_field(std::string_view text);

}  // namespace tuner
