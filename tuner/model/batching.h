// Batching: latency and throughput of a serving plan under the arrivals of a workload.
#pragma once
#include <optional>
#include <vector>

#include "engine/plan/outcome.h"
#include "tuner/model/serve_model.h"

namespace tuner {

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

// Latency is from sending a request to its last token, TTFT to its first, TPOT = (latency − TTFT) /
// (output − 1). Of a static batch they are those of the whole batch. Means where requests differ.
struct ServePrediction {
  double latency_seconds = 0;
  double ttft_seconds = 0;
  double tpot_seconds = 0;
  double tokens_per_second = 0;  // generated, by all replicas
  double tokens_per_second_per_gpu = 0;
  double requests_per_second = 0;
  double running = 0;     // sequences of one replica that generate at a time, mean
  bool sustained = true;  // the arrivals do not outrun the replicas

  engine::Interval latency_interval, ttft_interval, tpot_interval, throughput_interval;  // 90 %
  // Only where requests differ: closed loop and Poisson.
  std::optional<Percentiles> latency, ttft, tpot;

  // Of a request: first token, the others, and waiting for its turn; they sum to the latency.
  ServeParts prefill, decode;
  double waiting_seconds = 0;
  ServePart limit = ServePart::weights;  // the part in which most time goes

  ServeMemory memory;
  double kv_token_capacity = 0;  // of a replica
  bool fits = false;
  bool in_turns = false;  // a static batch of which not all sequences have room at a time
};

// A plan that does not fit is predicted as if it did, with `fits` false; in-flight batching keeps
// no more sequences than there is room for.
ServePrediction predict_serving(const ServeScenario& scenario, const ServePlan& plan);

// Generated tokens a second of one replica with `most` sequences under a full queue.
double saturated_tokens_per_second(const ServeModel& model, double most);

}  // namespace tuner
