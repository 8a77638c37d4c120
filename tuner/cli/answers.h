// Printing an answer, storing it, and the exit code that goes with it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/plan/model_spec.h"
#include "tuner/cli/command.h"
#include "tuner/model/cluster_spec.h"

namespace tuner {

// Prints the answer as text, or as JSON with --json.
void print_answer(const nlohmann::json& answer, const Arguments& arguments);

// Stores the answer as a run after it was printed, so that trouble with the store loses nothing
// that the user has asked for; throws engine::Error (storage) then.
void store_answer(const nlohmann::json& answer, const Arguments& arguments,
                  const engine::ModelSpec& model, const ClusterSpec& cluster,
                  const std::string& kind, const std::string& title, const std::string& status);

}  // namespace tuner
