// Host serve fit: the rates of serving on this machine from short static batches on it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tuner/model/batching.h"
#include "tuner/model/serve_scenario.h"

namespace tuner {

// One static batch that is measured to calibrate.
struct HostServeRow {
  engine::ModelSpec model;
  ServePlan plan;
  int64_t input = 0, output = 0;
  // To be filled in; of a step.
  double ttft_seconds = 0, tpot_seconds = 0;
};

// Batches that differ in what the rates tell apart: lengths, numbers of sequences and sizes of
// products; messages of tensor and pipeline parallelism, and replicas that share the cores.
std::vector<HostServeRow> host_serve_rows(const engine::ModelSpec& small);

struct HostServeFit {
  std::map<std::string, double> rates;  // by their names in profiles/serve_rates.json
  std::vector<ServePrediction> predicted;
  std::vector<ServePrediction> left_out;  // of every row, by a fit without it
};

// Fits the constants of the serving model on top of the fitted rates of the machine, and gives
// their sigmas from the rows left out. The same rows give the same digits.
HostServeFit fit_host_serving(const ClusterSpec& cluster, const std::vector<HostServeRow>& rows);

// Of one row on the machine.
ServeScenario host_serve_scenario(const ClusterSpec& cluster, const HostServeRow& row);

}  // namespace tuner
