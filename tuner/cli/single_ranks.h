// Single ranks of the best plan of a cluster that is not here: run on this machine, one by one.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "tuner/cli/ending.h"
#include "tuner/cli/measure_options.h"
#include "tuner/profile/fingerprint.h"
#include "tuner/search/confirm.h"

namespace tuner {

// Whether trials run whole plans. Else they run single ranks of the best plan. Throws InputError
// where they can do neither.
bool runs_whole_plans(const ClusterSpec& cluster, const std::string& stack,
                      const MeasureRequest& request);

// What was asked, and its best plan as predicted.
struct RankQuestion {
  const engine::ModelSpec& model;
  const ClusterSpec& cluster;
  std::string kind;  // of the run
  engine::Precision precision;
  // Cuts the best plan; with its reason where that cannot be. None where no plan fits.
  std::function<std::optional<Slice>(const SliceRoom&, std::string& why_not)> slice;
};

// The answer with what the ranks told; its title, and how it ended if all of them ran.
using AnswerWith =
    std::function<nlohmann::json(std::optional<Confirmation>, std::string& title, Ending& ending)>;

// Runs the ranks, prints and stores the answer; only tells of them with --dry-run. Returns the exit
// code.
int confirm_best(const Arguments& arguments, const MeasureRequest& request,
                 const Launcher& launcher, const Host& host, const RankQuestion& question,
                 const AnswerWith& answer_with);

}  // namespace tuner
