// Printing an answer, storing it, and the exit code that goes with it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/model_spec.h"
#include "tuner/cli/command.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/report/report.h"
#include "tuner/store/store.h"

namespace tuner {

// Prints the answer as text, or as JSON with --json.
void print_answer(const nlohmann::json& answer, const Arguments& arguments);

// How text is laid out: for this terminal, and as the user asks.
ReportStyle report_style(const Arguments& arguments);

// Writes a page to the file of --html, whole or not at all, so that a reader never sees half of
// one; to standard output for "-".
void write_page(const std::string& path, const std::string& page);

// Stores the answer as a run after it was printed, so that trouble with the store loses nothing
// that the user has asked for; throws engine::Error (storage) then.
void store_answer(const nlohmann::json& answer, const Arguments& arguments,
                  const engine::ModelSpec& model, const ClusterSpec& cluster,
                  const std::string& kind, const std::string& title, const std::string& status);

// A run as it is stored before its answer is known.
RunRecord unfinished_run(const Arguments& arguments, const engine::ModelSpec& model,
                         const ClusterSpec& cluster, const std::string& kind);
// The file that --db names, or the default one.
std::string store_path(const Arguments& arguments);

}  // namespace tuner
