// Validation: predictions beside published measurements, and how far they are off.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/validate/error_summary.h"
#include "tuner/validate/published_row.h"

namespace tuner {

struct PredictedRow {
  const PublishedRow* row = nullptr;
  double predicted = 0;
  double low = 0, high = 0;   // 90 % interval
  engine::ParallelPlan plan;  // the one that counted, where the row leaves some open

  // predicted / measured − 1; of `fits` the difference.
  double error() const {
    return row->metric == Metric::fits ? predicted - row->measured : predicted / row->measured - 1;
  }
  std::optional<Scored> scored() const {
    if (row->metric == Metric::fits) return std::nullopt;
    return Scored{error(), row->measured >= low && row->measured <= high};
  }
};

FitSummary summarize_fits(const std::vector<PredictedRow>& rows);

// How well plans are ordered, over groups of at least three different plans of one model, GPU type
// and count, sequence, batch, precision and stack (repeats of a plan averaged first) whose slowest
// plan takes at least `kClearSpread` times the fastest: closer ones repeat no better than that.
struct RankingSummary {
  int groups = 0;
  double mean_spearman = 0;
  double mean_regret = 0;  // of the plan predicted fastest, over the one measured fastest
  // Of the fastest of the three plans predicted fastest, over the groups of more than three: what
  // measuring three finalists leaves.
  int larger_groups = 0;
  double mean_finalist_regret = 0;
};
constexpr double kClearSpread = 1.15;
RankingSummary rank_groups(const std::vector<PredictedRow>& rows);
// Of the sources that have a group.
std::map<std::string, RankingSummary> rank_groups_by_source(const std::vector<PredictedRow>& rows);

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
