// ServeScenario: everything a prediction of serving depends on, apart from the plan.
#pragma once
#include <array>
#include <cstdint>

#include "engine/plan/model_spec.h"
#include "engine/plan/serving.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/model/serve_rates.h"
#include "tuner/model/serve_stack.h"

namespace tuner {

using engine::Arrival;
using engine::kArrivalNames;

struct ServeWorkload {
  int64_t input = 512;   // tokens of a prompt
  int64_t output = 128;  // tokens generated for it
  Arrival arrival = Arrival::static_batch;
  double concurrency = 0;          // clients of the closed loop, over all replicas
  double waves = 10;               // requests each of them sends; the first ones arrive at once
  double requests_per_second = 0;  // Poisson, over all replicas
  // Half the width of the even distribution of output lengths, relative; under a load only. Without
  // it requests that begin together end together, and their successors queue together.
  double length_spread = 0.1;
};

struct ServeScenario {
  engine::ModelSpec model;
  ClusterSpec cluster;
  ServeStack stack;
  ServeWorkload workload;
  // By ServeFormat of the weights.
  std::array<ServeRates, kServeFormatNames.size()> rates;
  ReduceCurves curves;
  double compute_factor = 1;  // measured over predicted, of what a device computes by itself

  // Whether the workload is one batch that is held as a whole, and not from a pool of KV cache.
  bool runs_whole_batch() const {
    return !stack.in_flight ||
           (stack.current().static_engine && workload.arrival == Arrival::static_batch);
  }
  const ServeRates& rates_of(ServeFormat weights) const {
    return rates[static_cast<size_t>(weights)];
  }
};

// Resolves the rates of every format of weights; those that were measured on the device itself come
// before the table's.
void use_rates(ServeScenario& scenario, const ServeRatesTable& table);

}  // namespace tuner
