// What the validate commands have in common: their options, tables and lines.
#pragma once
#include <string>
#include <vector>

#include "engine/base/errors.h"
#include "tuner/cli/command.h"
#include "tuner/cli/published_tables.h"
#include "tuner/validate/error_summary.h"
#include "tuner/validate/published_row.h"

namespace tuner {

std::string percent(double share);
std::string signed_percent(double share);

// One line a summary; `title` is what they are by.
std::string summary_table(const std::string& title, const Summaries& summaries);
// Nothing when no row tells whether it fitted.
std::string fits_line(const FitSummary& fits);
std::string skipped_lines(const std::vector<SkippedRow>& skipped);

// Throws InputError when no row of the sources that --source asks for is left.
template <class Row>
void keep_asked_sources(const Arguments& arguments, std::vector<Row>& rows) {
  const std::string part = arguments.text("--source").value_or("");
  std::erase_if(rows, [&](const Row& row) { return !contains_ignoring_case(row.source, part); });
  if (!part.empty() && rows.empty())
    throw engine::InputError("no row that can be predicted has '" + part + "' in its source");
}

// --source, --rows, --json.
std::vector<Option> validate_options();

}  // namespace tuner
