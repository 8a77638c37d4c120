// Slices of plans of serving.
#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/grid.h"
#include "tuner/model/serve_model.h"
#include "tuner/model/serve_work.h"
#include "tuner/search/serve_measure.h"
#include "tuner/search/slice.h"
#include "tuner/space/serve_rules.h"

namespace tuner {

using engine::MemoryUse;

namespace {

struct Depth {
  int pp = 1;
  int layers = 1;  // of a stage
  int64_t batch = 1, output = 1;
};

// From `most` by halves to `least`.
std::vector<int64_t> halves(int64_t most, int64_t least) {
  std::vector<int64_t> list{most};
  while (list.back() > least) list.push_back(std::max(least, list.back() / 2));
  return list;
}

// Nearest to the plan first: the number of stages counts most, then the sequences, which a pipeline
// needs one a stage of, then the tokens generated, then the layers.
std::vector<Depth> depths_of(const ServePlan& plan, int64_t output, int64_t model_layers) {
  const int64_t layers = std::max<int64_t>(1, model_layers / plan.pp);
  std::vector<Depth> depths;
  for (int pp = plan.pp; pp >= std::min(plan.pp, 2); pp = pp > 4 ? pp / 2 : pp - 1)
    for (const int64_t batch : halves(plan.batch, std::min<int64_t>(plan.batch, pp)))
      for (const int64_t tokens : halves(output, std::min<int64_t>(output, 2)))
        for (const int64_t count : halves(layers, 1))
          depths.push_back({pp, static_cast<int>(count), batch, tokens});
  return depths;
}

// What the engine runs of any scenario: a static batch, with weights and KV cache in one type.
ServeScenario on_engine(ServeScenario scenario, bool bf16, ServePlan& plan) {
  scenario.stack = find_serve_stack("autotune");
  if (plan.weights != ServeFormat::f32) plan.weights = bf16 ? ServeFormat::bf16 : ServeFormat::f32;
  plan.kv = plan.weights;
  plan.replicas = 1;
  scenario.workload.arrival = Arrival::static_batch;
  use_rates(scenario, ServeRatesTable::load());
  return scenario;
}

// Seconds of a batch that one rank of the stage computes, on the cluster's device.
double predicted_compute(ServeScenario scenario, ServePlan plan, int stage) {
  scenario.model.layers = stage_layers(scenario.model.layers, plan.pp)[static_cast<size_t>(stage)];
  if (stage < plan.pp - 1) scenario.model.vocab = 1;  // the last one has the head
  const ServeWorkload& work = scenario.workload;
  const auto sequences = static_cast<double>(plan.batch) / plan.pp;  // of a pass
  const auto input = static_cast<double>(work.input), output = static_cast<double>(work.output);
  const int passes = plan.pp;
  plan.pp = 1;
  const ServeModel model(scenario, plan);
  ServeParts parts = model.iteration({0, 0, sequences, input});
  parts.add(model.iteration({sequences, input + output / 2, 0, 0}), output - 1);
  return passes * (parts.total() - parts[ServePart::communication]);
}

std::vector<SingleRank> ranks_of(const ServeScenario& scenario, const ServePlan& plan) {
  const ServeModel model(scenario, plan);
  const auto sequences = static_cast<double>(plan.batch);
  engine::Job job = serving_job_of(scenario, plan);
  job.warmup_steps = 0;
  job.memory_limit_bytes = 0;
  const engine::Grid grid(job.plan);
  const double passes =
      static_cast<double>(std::min<int64_t>(plan.pp, plan.batch) * scenario.workload.output - 1);
  const double activations = model.memory(sequences).activation_bytes;
  std::vector<SingleRank> ranks;
  for (const auto& [stage, place] : standing_stages(plan.pp)) {
    const double weights = model.weight_bytes(stage), cache = model.kv_bytes(stage, sequences);
    job.phantom_rank = grid.with_coordinate(0, engine::Axis::pipeline, stage);
    ranks.push_back({.stage = stage,
                     .place = place,
                     .job = job,
                     .bytes = weights + cache + activations,
                     .read_bytes = passes * weights,
                     .seconds = predicted_compute(scenario, plan, stage),
                     .memory = {{MemoryUse::parameter, weights}, {MemoryUse::kv_cache, cache}},
                     .work = serve_work(scenario, plan, stage)});
  }
  return ranks;
}

}  // namespace

std::optional<Slice> slice_of(const ServeScenario& scenario, const ServePlan& plan,
                              const SliceRoom& room, std::string& why_not) {
  ServePlan small = plan;
  ServeScenario of_slice = on_engine(scenario, room.multiplies_bf16, small);
  const std::vector<Depth> depths =
      depths_of(plan, scenario.workload.output, scenario.model.layers);
  const CutSlice make = [&](size_t place, std::string& reason) -> std::optional<Slice> {
    const Depth& depth = depths[place];
    of_slice.model.layers = int64_t{depth.pp} * depth.layers;
    of_slice.workload.output = depth.output;
    small.pp = depth.pp;
    small.batch = depth.batch;
    of_slice.cluster.gpus = small.gpus();
    std::vector<engine::Violation> broken = serve_scenario_violations(of_slice);
    if (broken.empty()) broken = serve_violations(of_slice, small);
    if (is_refused(small, broken, reason)) return std::nullopt;
    return Slice{plan,
                 scenario.model.layers,
                 small,
                 fmt::format("{}  {} tokens in  {} out", describe(small), of_slice.workload.input,
                             of_slice.workload.output),
                 of_slice.model.layers,
                 ranks_of(of_slice, small)};
  };
  return choose_slice(depths.size(), make, room, why_not);
}

}  // namespace tuner
