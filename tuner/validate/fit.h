// Fit: finds the constants of the cost model from published step times, and how wrong they leave it
// on rows that it has not seen.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/model/rates.h"
#include "tuner/validate/published_row.h"
#include "tuner/validate/validation.h"

namespace tuner {

// Least squares on log(predicted / measured), a soft absolute value beyond 6 %, every constant held
// by a log-normal prior (logit-normal for shares). A source of n rows weighs √n: its rows share a
// cluster, a software and often a run. Gauss–Newton with damping; no randomness, so the same rows
// give the same digits. `rows` keep their scenarios; their rates are replaced by those of the
// fitted table.
RatesTable fit_rates(const RatesTable& start, std::vector<const PublishedRow*> rows);

// Errors on rows left out of the fit.
struct CrossValidation {
  std::vector<PredictedRow> by_shape;   // whole model shapes left out, in five folds
  std::vector<PredictedRow> by_source;  // one whole source left out, its stack's constants unfitted
};

struct FitAccount {
  RatesTable table;  // fitted on all rows, with residual_sigma from the folds
  std::vector<PredictedRow> in_sample;
  CrossValidation cross;
};

// `progress(done, total)` after each fit.
using FitProgress = std::function<void(int done, int total)>;
FitAccount fit_and_validate(const RatesTable& start, std::vector<PublishedRow>& rows,
                            const FitProgress& progress);

// What the rates file records: the command, the rows, the errors in sample and left out.
nlohmann::json fit_to_json(const FitAccount& account, const std::string& command);

// Every source weighted alike.
ErrorSummary summarize_sources_alike(const std::vector<PredictedRow>& rows);

}  // namespace tuner
