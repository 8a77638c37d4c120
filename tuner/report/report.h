// Renders answers (the JSON that `autotune train` and `autotune estimate train` give and the store
// keeps).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tuner/store/store.h"

namespace tuner {

struct ReportStyle {
  int width = 100;  // columns of the terminal; used from 40 to 100
  bool color = false;
  bool ascii = false;  // no character beyond ASCII, for locales without UTF-8
  bool wide = false;   // tables keep every column, however wide they get
};

// All three dispatch on the member "schema" (autotune.train/1, autotune.sweep/1,
// autotune.compare/1, …) and throw InputError for any other and for an answer that
// cannot be read. Members that older answers lack are left out of the report.
std::string render_text(const nlohmann::json& answer, const ReportStyle& style);
std::string render_markdown(const nlohmann::json& answer);
// One row a plan: the best, the runners-up, the baseline, or the one that was estimated. Fields
// that would be formulas to a spreadsheet begin with an apostrophe.
std::string render_csv(const nlohmann::json& answer);

// Of a stored run in whatever state it is: with its answer, without one as its trials stand, or
// with one that this version cannot read. `trials` are those of the run.
std::string render_text(const RunRecord& run, const std::vector<TrialRecord>& trials,
                        const ReportStyle& style);
std::string render_markdown(const RunRecord& run, const std::vector<TrialRecord>& trials);
// One page that needs nothing else; its charts are drawn by Chart.js. Throws Error (environment)
// where the build lacks that.
std::string render_html(const nlohmann::json& answer);
std::string render_html(const RunRecord& run, const std::vector<TrialRecord>& trials);

}  // namespace tuner
