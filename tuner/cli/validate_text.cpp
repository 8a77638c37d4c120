// Tables and lines of the validate commands.
#include "tuner/cli/validate_text.h"

#include <fmt/format.h>

#include <map>

#include "tuner/cli/output.h"

namespace tuner {

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

std::string summary_table(const std::string& title, const Summaries& summaries) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, s] : summaries)
    rows.push_back({std::to_string(s.n), percent(s.mape), percent(s.median), signed_percent(s.bias),
                    percent(s.coverage_90), name});
  return format_table({"ROWS", "MEAN %", "MEDIAN %", "BIAS %", "IN 90 %", title}, rows,
                      output_width()) +
         "\n";
}

std::string fits_line(const FitSummary& fits) {
  if (fits.worked + fits.out_of_memory == 0) return {};
  std::string text = fmt::format("Memory: {} of {} runs that worked are called impossible",
                                 fits.worked_called_impossible, fits.worked);
  if (fits.out_of_memory > 0)
    text += fmt::format("; {} of {} that ran out of memory are caught", fits.out_of_memory_caught,
                        fits.out_of_memory);
  return text + ".\n";
}

std::string skipped_lines(const std::vector<SkippedRow>& skipped) {
  std::map<std::string, int> reasons;
  for (const SkippedRow& row : skipped) ++reasons[row.reason];
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += fmt::format("{} {} not predicted: {}\n", count, count == 1 ? "row" : "rows", reason);
  return text;
}

std::vector<Option> validate_options() {
  return {{.name = "--source",
           .kind = ValueKind::text,
           .placeholder = "TEXT",
           .help = "Only rows whose source contains this"},
          {.name = "--rows", .kind = ValueKind::flag, .help = "Print every row"},
          json_option()};
}

}  // namespace tuner
