// Fit: finds the constants of the cost model from published step times, and how wrong they leave it
// on rows that it has not seen.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/model/rates.h"
#include "tuner/validate/published_row.h"
#include "tuner/validate/validation.h"

namespace tuner {

// A fit by constants_fit.h whose errors pull like their absolute value beyond 6 %. A source of n
// rows weighs √n: its rows share a cluster, a software and often a run. It begins at the values of
// `start`; `rows` keep their scenarios.
RatesTable fit_rates(const RatesTable& start, const std::vector<const PublishedRow*>& rows);

// A prediction of a row that its fit did not have, and how far the plan lies from the rows that the
// fit had of its stack, in doublings; nothing where the fit had none with its arithmetic.
struct LeftOutRow {
  PredictedRow predicted;
  std::optional<double> distance;
};

// Errors on rows left out of the fit.
struct CrossValidation {
  std::vector<LeftOutRow> by_shape;   // whole model shapes left out, one at a time
  std::vector<LeftOutRow> by_source;  // one whole source left out, its stack's constants unfitted
  // The same sources after three of their rows have corrected the constants, as `calibrate --from`
  // does; the rest of their rows.
  std::vector<LeftOutRow> calibrated;
};

// Standard deviations of log(measured / predicted), by what 90 % of the rows left out need.
struct Uncertainty {
  std::map<std::string, double> by_stack;
  double unknown_stack = 0;
  double distance = 0;  // for each doubling beyond the rows of the fit

  double sigma(const std::string& stack, std::optional<double> distance_of_row) const;
};

struct FitAccount {
  RatesTable table;  // fitted on all rows, with the uncertainty from the rows left out
  RatesTable::SeenByStack seen;
  std::vector<PredictedRow> in_sample;
  CrossValidation cross;
  // by_shape again, with intervals from the other shapes: what the intervals promise of new ones.
  std::vector<PredictedRow> covered;
};

// `progress(done, total)` after each fit.
using FitProgress = std::function<void(int done, int total)>;
FitAccount fit_and_validate(const RatesTable& start, std::vector<PublishedRow>& rows,
                            const FitProgress& progress);

// What the rates file records: the command, the rows, the errors in sample and left out.
nlohmann::json fit_to_json(const FitAccount& account, const std::string& command);

std::vector<PredictedRow> predictions_of(const std::vector<LeftOutRow>& rows);

// Every source weighted alike.
ErrorSummary summarize_sources_alike(const std::vector<PredictedRow>& rows);

}  // namespace tuner
