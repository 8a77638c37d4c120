// The account of a fit, for the rates file.
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "tuner/validate/fit.h"

namespace tuner {
namespace {

using engine::Json;
using Rows = std::vector<PredictedRow>;

Json errors_json(const ErrorSummary& s) {
  return {{"mape", s.mape}, {"median", s.median}, {"bias", s.bias}};
}

// By stack: what share of the rows left out lies in the 90 % interval that the others give them.
Json coverage_json(const Rows& rows) {
  Json json = Json::object();
  for (const auto& [stack, s] :
       summaries_by(rows, [](const PredictedRow& row) { return row.row->stack; }))
    json[stack] = {{"rows", s.n}, {"coverage_90", s.coverage_90}};
  return json;
}

}  // namespace

Json fit_to_json(const FitAccount& account, const std::string& command) {
  const std::map<std::string, Rows> kinds = {
      {"in_sample", account.in_sample},
      {"shapes_left_out", predictions_of(account.cross.by_shape)},
      {"source_left_out", predictions_of(account.cross.by_source)},
      {"source_left_out_but_three_rows", predictions_of(account.cross.calibrated)}};
  Json by_source = Json::object(), alike = Json::object();
  for (const auto& [kind, rows] : kinds) {
    alike[kind] = errors_json(summarize_sources_alike(rows));
    for (const auto& [source, errors] :
         summaries_by(rows, [](const PredictedRow& row) { return row.row->source; })) {
      by_source[source][kind] = errors_json(errors);
      if (kind == "in_sample") by_source[source]["rows"] = errors.n;
    }
  }
  Json seen = Json::object();
  for (const auto& [stack, one] : account.seen) seen[stack] = seen_to_json(one);
  return {{"command", command},
          {"rows", account.in_sample.size()},
          {"sources_weighted_alike", std::move(alike)},
          {"by_source", std::move(by_source)},
          {"shapes_left_out_by_stack", coverage_json(account.covered)},
          {"seen", std::move(seen)}};
}

}  // namespace tuner
