// The built-in engine: a job for autotune-worker.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/plan/job.h"
#include "tuner/exchange/formats.h"
#include "tuner/model/stack.h"

namespace tuner {

Draft job_draft(const TrainingConfig& config, const Placement& placement, Losses& losses) {
  engine::Job job;
  job.model = config.model;
  job.plan = config.plan;
  job.workload = config.workload;
  job.steps = config.train_steps();
  job.outcome_path = "outcome.json";
  const Stack stack = find_stack("autotune");
  if (config.plan.cp > 1)
    losses.add_fatal(fmt::format("autotune-worker has no context parallelism yet: cp {} cannot run",
                                 config.plan.cp));
  const auto& precisions = stack.precisions;
  if (std::find(precisions.begin(), precisions.end(), config.workload.precision) ==
      precisions.end()) {
    losses.add(fmt::format("autotune-worker does not train in {}: bf16 stands there",
                           name_of(config.workload.precision)));
    job.workload.precision = engine::Precision::bf16;
  }
  Draft draft;
  draft.documents = {{"job.json", engine::job_to_json(job).dump(
                                      2, ' ', false, nlohmann::json::error_handler_t::replace) +
                                      "\n"}};
  draft.document_is_answer = true;
  draft.command = {fmt::format("mpirun -n {} autotune-worker job.json",
                               placement.nodes * placement.gpus_per_node)};
  draft.notes = {"without data_prefix it trains on synthetic tokens"};
  return draft;
}

}  // namespace tuner
