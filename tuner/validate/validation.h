// Validation: predictions beside published measurements, and how far they are off.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/validate/published_row.h"

namespace tuner {

struct PredictedRow {
  const PublishedRow* row = nullptr;
  double predicted = 0;
  double low = 0, high = 0;   // 90 % interval
  engine::ParallelPlan plan;  // the one that counted, where the row leaves some open

  double error() const { return predicted / row->measured - 1; }
};

struct ErrorSummary {
  int n = 0;
  double mape = 0, median = 0;  // of |error|
  double bias = 0;              // median of the signed error
  double coverage_90 = 0;       // share of rows whose measurement lies in the interval
};
ErrorSummary summarize(const std::vector<const PredictedRow*>& rows);

// Over groups of at least three different plans of one model, GPU type and count, sequence, batch,
// precision and stack (repeats of a plan averaged first).
struct RankingSummary {
  int groups = 0;
  double mean_spearman = 0;
  double mean_regret = 0;  // of the plan predicted fastest, over the one measured fastest
};
RankingSummary rank_groups(const std::vector<PredictedRow>& rows, const std::string& source = {},
                           double least_spread = 1);

struct Validation {
  PublishedRows read;
  std::vector<PredictedRow> predicted;
};

// Predicts every row that is covered. Throws InputError for a table that cannot be read.
Validation validate(PublishedRows rows);

// Predicts the metric of one row.
PredictedRow predict_row(const PublishedRow& row);

// autotune.validate/1.
nlohmann::json validation_to_json(const Validation& validation);

}  // namespace tuner
