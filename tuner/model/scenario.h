// Scenario: everything a prediction depends on, apart from the plan.
#pragma once
#include "engine/plan/model_spec.h"
#include "engine/plan/workload.h"
#include "tuner/model/cluster_spec.h"
#include "tuner/model/rates.h"
#include "tuner/model/stack.h"

namespace tuner {

struct Scenario {
  engine::ModelSpec model;
  ClusterSpec cluster;
  Stack stack;
  engine::Workload workload;
  Rates rates;
  // Date of the software, in years; 0 = the newest release that was measured.
  double software_year = 0;

  // What a rank needs beside the model: libraries, contexts.
  double runtime_bytes() const {
    const double own = cluster.device.runtime_bytes;
    return own >= 0 ? own : stack.runtime_bytes;
  }

  // The vocabulary as the stack pads it for `tp` ranks.
  int64_t vocab(int64_t tp) const {
    return engine::padded_vocab(model.vocab, stack.vocab_multiple, tp);
  }
};

}  // namespace tuner
