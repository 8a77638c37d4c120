// ServeRow: one published serving run as a scenario and a plan, with what had to be assumed.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tuner/model/batching.h"
#include "tuner/model/serve_scenario.h"
#include "tuner/validate/csv.h"
#include "tuner/validate/published_row.h"

namespace tuner {

enum class ServeMetric : uint8_t {
  latency_seconds,
  ttft_seconds,
  tpot_seconds,
  tokens_per_second_per_gpu,
  fits,  // 1 the run worked, 0 it ran out of memory
};
constexpr std::array<std::string_view, 5> kServeMetricNames = {
    "latency_seconds", "ttft_seconds", "tpot_seconds", "tokens_per_second_per_gpu", "fits"};
constexpr std::string_view name_of(ServeMetric metric) {
  return kServeMetricNames[static_cast<size_t>(metric)];
}

struct ServeRow {
  std::string id, source;
  std::string gpu;    // gpu_key
  std::string stack;  // stack_key, as the row states it
  std::string model;  // rows of one model are left out together
  ServeScenario scenario;
  ServePlan plan;
  // Output tokens are counted, or input and output (argonne's convention).
  bool counts_input = false;
  std::vector<std::pair<ServeMetric, double>> measured;
  std::vector<std::string> assumed;  // columns that were empty and took a default

  bool is_mixture() const { return !scenario.model.is_dense(); }
};

struct ServeRows {
  std::vector<ServeRow> rows;
  std::vector<SkippedRow> skipped;
};

// Whether a table has the columns of serving runs rather than of training runs.
bool holds_serving_runs(const CsvTable& csv);

// Reads the normalised columns of a table of serving runs. What the model does not cover is
// skipped, with the reason. Throws InputError when the file lacks columns, or a cell is no number.
ServeRows read_serving_runs(const CsvTable& csv, const ServeRatesTable& table);

// The metric of a prediction.
double value_of(ServeMetric metric, const ServeRow& row, const ServePrediction& prediction);

}  // namespace tuner
