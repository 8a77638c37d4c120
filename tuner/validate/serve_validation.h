// Serving predictions beside published measurements, and how far they are off.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/validate/serve_row.h"
#include "tuner/validate/validation.h"

namespace tuner {

// One metric of one row.
struct PredictedServe {
  const ServeRow* row = nullptr;
  ServeMetric metric = ServeMetric::latency_seconds;
  double measured = 0, predicted = 0;
  double low = 0, high = 0;  // 90 % interval

  // predicted / measured − 1; of `fits` the difference.
  double error() const;
  std::optional<Scored> scored() const;
};

// All metrics of a row.
std::vector<PredictedServe> predict_serve_row(const ServeRow& row);

// Summaries of rows with one metric and arrival, mixtures of experts apart: "latency_seconds,
// static", "tpot_seconds, closed_loop, experts".
Summaries summarize_by_kind(const std::vector<PredictedServe>& rows);

// Over groups of at least three configurations (plan and batch) of one model, GPU, lengths,
// formats, stack and source. The pick is the one with the highest predicted throughput a GPU of
// those whose predicted latency is within the budget, the median of the measured latencies.
struct ServeRanking {
  int groups = 0;
  double mean_spearman = 0;  // of the throughputs
  // What the pick lacks in measured throughput against the best one within the budget; a pick that
  // misses the budget counts by how much it is late.
  double mean_regret = 0, median_regret = 0;
};
ServeRanking rank_serving(const std::vector<PredictedServe>& rows);

FitSummary summarize_fits(const std::vector<PredictedServe>& rows);

struct ServeValidation {
  ServeRows read;
  std::vector<PredictedServe> predicted;
};
ServeValidation validate_serving(ServeRows rows);

// autotune.validate/1.
nlohmann::json serve_validation_to_json(const ServeValidation& validation);

}  // namespace tuner
