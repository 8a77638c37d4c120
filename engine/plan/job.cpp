// JSON of jobs.
#include "engine/plan/job.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace engine {
namespace {

Json optimizer_to_json(const OptimizerSpec& optimizer) {
  return {{"learning_rate", optimizer.learning_rate},
          {"minimum_rate", optimizer.minimum_rate},
          {"warmup_steps", optimizer.warmup_steps},
          {"beta1", optimizer.beta1},
          {"beta2", optimizer.beta2},
          {"epsilon", optimizer.epsilon},
          {"weight_decay", optimizer.weight_decay},
          {"clip_norm", optimizer.clip_norm}};
}

OptimizerSpec optimizer_from_json(ObjectReader reader) {
  OptimizerSpec optimizer;
  auto number = [&](const char* key, NumberRange range, double& value) {
    value = reader.number(key, range, value);
  };
  number("learning_rate", {0, 1e3}, optimizer.learning_rate);
  number("minimum_rate", {0, 1e3}, optimizer.minimum_rate);
  optimizer.warmup_steps = reader.integer("warmup_steps", {}, optimizer.warmup_steps);
  number("beta1", {0, 1}, optimizer.beta1);
  number("beta2", {0, 1}, optimizer.beta2);
  number("epsilon", {0, 1}, optimizer.epsilon);
  number("weight_decay", {0, 1e3}, optimizer.weight_decay);
  number("clip_norm", {0, 1e9}, optimizer.clip_norm);
  reader.finish();
  return optimizer;
}

}  // namespace

Json job_to_json(const Job& job) {
  Json model;
  to_json(model, job.model);
  Json json = {{"schema", "autotune.job/1"},
               {"model", std::move(model)},
               {"plan", plan_to_json(job.plan, job.model.layers)},
               {"workload", workload_to_json(job.workload)},
               {"optimizer", optimizer_to_json(job.optimizer)},
               {"steps", job.steps},
               {"warmup_steps", job.warmup_steps},
               {"seed", job.seed},
               {"memory_limit_bytes", job.memory_limit_bytes},
               {"phantom_rank", job.phantom_rank},
               {"data_prefix", job.data_prefix},
               {"validation_prefix", job.validation_prefix},
               {"validation_interval", job.validation_interval},
               {"validation_batches", job.validation_batches},
               {"checkpoint_load", job.checkpoint_load},
               {"checkpoint_save", job.checkpoint_save},
               {"checkpoint_interval", job.checkpoint_interval},
               {"events_path", job.events_path},
               {"outcome_path", job.outcome_path}};
  if (job.serving) json["serving"] = serving_to_json(*job.serving);
  if (job.tuning) json["tuning"] = tuning_to_json(*job.tuning);
  return json;
}

Job job_from_json(const Json& json, const std::string& source) {
  Problems problems(source);
  ObjectReader reader(json, "", problems);
  if (reader.text("schema") != "autotune.job/1")
    reader.problem("schema", "must be \"autotune.job/1\"");
  Job job;
  job.optimizer = optimizer_from_json(reader.object("optimizer"));
  job.steps = reader.integer("steps", {1, 1'000'000'000}, job.steps);
  job.warmup_steps = reader.integer("warmup_steps", {0, 1'000'000'000}, job.warmup_steps);
  job.seed = static_cast<uint64_t>(reader.integer("seed", {}, 1));
  job.memory_limit_bytes = reader.number("memory_limit_bytes", {}, 0.0);
  job.phantom_rank = reader.integer("phantom_rank", {-1, 1 << 24}, -1);
  job.data_prefix = reader.text("data_prefix", "");
  job.validation_prefix = reader.text("validation_prefix", "");
  job.validation_interval = reader.integer("validation_interval", {}, 0);
  job.validation_batches =
      reader.integer("validation_batches", {1, 1'000'000}, job.validation_batches);
  job.checkpoint_load = reader.text("checkpoint_load", "");
  job.checkpoint_save = reader.text("checkpoint_save", "");
  job.checkpoint_interval = reader.integer("checkpoint_interval", {}, 0);
  job.events_path = reader.text("events_path", "");
  job.outcome_path = reader.text("outcome_path", "");
  const Json& model = reader.value("model");
  const Json& plan = reader.value("plan");
  const Json& workload = reader.value("workload");
  const Json& serving = reader.value("serving");
  const Json& tuning = reader.value("tuning");
  reader.finish();
  problems.throw_if_any();
  job.model = model_spec_from_json(model, source + ": model");
  job.plan = plan_from_json(plan, source + ": plan");
  job.workload = workload_from_json(workload, source + ": workload");
  if (!serving.is_null()) job.serving = serving_from_json(serving, source + ": serving");
  if (!tuning.is_null()) job.tuning = tuning_from_json(tuning, source + ": tuning");
  return job;
}

}  // namespace engine
