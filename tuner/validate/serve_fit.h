// Serve fit: finds the constants of the serving model from published runs, and how wrong they leave
// it on runs that it has not seen.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/model/serve_rates.h"
#include "tuner/validate/serve_row.h"
#include "tuner/validate/serve_validation.h"

namespace tuner {

// Errors on runs left out of the fit.
struct ServeCrossValidation {
  std::vector<PredictedServe> by_group;   // whole (source, model, GPU) groups left out, in folds
  std::vector<PredictedServe> by_source;  // one whole source left out
  // Mixtures of experts only: single plans (formats, tp, ep, pp) of a model on a GPU left out,
  // whose other plans are seen.
  std::vector<PredictedServe> by_plan;
};

struct ServeFitAccount {
  ServeRatesTable table;  // fitted on all rows, with sigmas from the folds
  std::vector<PredictedServe> in_sample;
  ServeCrossValidation cross;
};

// `progress(done, total)` after each fit.
ServeFitAccount fit_and_validate_serving(const ServeRatesTable& start,
                                         const std::vector<ServeRow>& rows,
                                         const std::function<void(int done, int total)>& progress);

// What the rates file records: the command, the rows, the errors in sample and left out.
nlohmann::json serve_fit_to_json(const ServeFitAccount& account, const std::string& command);

}  // namespace tuner
