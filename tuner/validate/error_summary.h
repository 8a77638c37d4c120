// Error summaries: how far predictions are off, over all rows or by a key; of training and serving.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tuner {

// A prediction of a positive quantity beside its measurement.
struct Scored {
  double error = 0;      // predicted / measured − 1
  bool covered = false;  // the measurement lies in the 90 % interval
};

struct ErrorSummary {
  int n = 0;
  double mape = 0, median = 0;  // of |error|
  double bias = 0;              // median of the signed error
  double coverage_90 = 0;       // share of rows whose measurement lies in the interval
};
ErrorSummary summarize(const std::vector<Scored>& rows);

// Row::scored() is nothing for rows without a relative error (`fits`).
template <class Row>
ErrorSummary summarize(const std::vector<const Row*>& rows) {
  std::vector<Scored> scored;
  for (const Row* row : rows)
    if (const std::optional<Scored> one = row->scored()) scored.push_back(*one);
  return summarize(scored);
}

using Summaries = std::map<std::string, ErrorSummary>;

template <class Row, class Key>
Summaries summaries_by(const std::vector<Row>& rows, Key key) {
  std::map<std::string, std::vector<Scored>> groups;
  for (const Row& row : rows)
    if (const std::optional<Scored> one = row.scored())
      groups[std::string(key(row))].push_back(*one);
  Summaries summaries;
  for (const auto& [name, members] : groups) summaries[name] = summarize(members);
  return summaries;
}

// How memory was judged.
struct FitSummary {
  int worked = 0, worked_called_impossible = 0;
  int out_of_memory = 0, out_of_memory_caught = 0;

  void add(bool works, bool called_possible);
};

// As in autotune.validate/1.
nlohmann::json summary_json(const ErrorSummary& summary);
nlohmann::json summaries_json(const Summaries& summaries);
nlohmann::json fits_json(const FitSummary& fits);

}  // namespace tuner
