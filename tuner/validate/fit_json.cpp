// The account of a fit, for the rates file.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/json_reader.h"
#include "tuner/validate/fit.h"

namespace tuner {
namespace {

using engine::Json;
using Rows = std::vector<PredictedRow>;

Json errors_json(const ErrorSummary& s) {
  return {{"mape", s.mape}, {"median", s.median}, {"bias", s.bias}};
}

ErrorSummary of_source(const Rows& rows, const std::string& source) {
  std::vector<const PredictedRow*> members;
  for (const PredictedRow& row : rows)
    if (row.row->source == source) members.push_back(&row);
  return summarize(members);
}

}  // namespace

Json fit_to_json(const FitAccount& account, const std::string& command) {
  std::set<std::string> sources;
  for (const PredictedRow& row : account.in_sample) sources.insert(row.row->source);
  Json by_source = Json::object();
  for (const std::string& source : sources) {
    const ErrorSummary in_sample = of_source(account.in_sample, source);
    by_source[source] = {
        {"rows", in_sample.n},
        {"in_sample", errors_json(in_sample)},
        {"shapes_left_out", errors_json(of_source(account.cross.by_shape, source))},
        {"source_left_out", errors_json(of_source(account.cross.by_source, source))}};
  }
  return {{"command", command},
          {"rows", account.in_sample.size()},
          {"sources_weighted_alike",
           {{"in_sample", errors_json(summarize_sources_alike(account.in_sample))},
            {"shapes_left_out", errors_json(summarize_sources_alike(account.cross.by_shape))},
            {"source_left_out", errors_json(summarize_sources_alike(account.cross.by_source))}}},
          {"by_source", std::move(by_source)}};
}

}  // namespace tuner
