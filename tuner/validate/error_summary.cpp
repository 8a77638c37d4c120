// Error summaries and their JSON.
#include "tuner/validate/error_summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tuner/validate/statistics.h"

namespace tuner {

using Json = nlohmann::json;

ErrorSummary summarize(const std::vector<Scored>& rows) {
  ErrorSummary summary;
  summary.n = static_cast<int>(rows.size());
  if (rows.empty()) return summary;
  std::vector<double> sizes, errors;
  for (const Scored& row : rows) {
    errors.push_back(row.error);
    sizes.push_back(std::abs(row.error));
    summary.mape += std::abs(row.error);
    summary.coverage_90 += row.covered;
  }
  const auto n = static_cast<double>(rows.size());
  summary.mape /= n;
  summary.median = median(sizes);
  summary.bias = median(errors);
  summary.coverage_90 /= n;
  return summary;
}

void FitSummary::add(bool works, bool called_possible) {
  ++(works ? worked : out_of_memory);
  worked_called_impossible += works && !called_possible;
  out_of_memory_caught += !works && !called_possible;
}

Json summary_json(const ErrorSummary& s) {
  return {{"n", s.n},
          {"mape", s.mape},
          {"median", s.median},
          {"bias", s.bias},
          {"coverage_90", s.coverage_90}};
}

Json summaries_json(const Summaries& summaries) {
  Json json = Json::object();
  for (const auto& [name, summary] : summaries) json[name] = summary_json(summary);
  return json;
}

Json fits_json(const FitSummary& fits) {
  return {{"worked", fits.worked},
          {"worked_called_impossible", fits.worked_called_impossible},
          {"out_of_memory", fits.out_of_memory},
          {"out_of_memory_caught", fits.out_of_memory_caught}};
}

}  // namespace tuner
