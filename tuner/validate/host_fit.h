// Host fit: the rates of this machine from short trainings on it.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/parallel_plan.h"
#include "tuner/model/scenario.h"

namespace tuner {

// One training that is measured to calibrate.
struct HostRow {
  engine::ModelSpec model;
  engine::Workload workload;
  engine::ParallelPlan plan;
  double measured = 0;  // seconds a step; to be filled in
};

// Twice as wide, with half the layers.
engine::ModelSpec wider_model(const engine::ModelSpec& small);

// Trainings that differ in what the rates tell apart: sizes of products, number of micro-batches,
// messages on the tensor, pipeline and data axes, on 2 and 4 ranks.
std::vector<HostRow> host_rows(const engine::ModelSpec& small);

// The same for `gpus` GPUs, with models that fill one: `wide` is of GPT-3's kind, 2 layers or more;
// messages only where there are several.
std::vector<HostRow> gpu_rows(const engine::ModelSpec& wide, int gpus);

struct HostFit {
  ClusterSpec cluster;            // with the fitted rates
  std::vector<double> predicted;  // seconds of every row
  std::vector<double> left_out;   // of every row, by a fit without it
  double sigma = 0;               // of log(measured / predicted) on rows left out
};

// Few physical rates, each with a log-normal prior around `start`: arithmetic, memory, attention,
// links, and the fixed times of layers, messages and micro-batches. Gauss-Newton on log(predicted /
// measured) with a soft absolute value against outliers. The same rows give the same digits.
HostFit fit_host(const ClusterSpec& start, const Stack& stack, const std::vector<HostRow>& rows);

Scenario host_scenario(const ClusterSpec& cluster, const Stack& stack, const HostRow& row);

}  // namespace tuner
