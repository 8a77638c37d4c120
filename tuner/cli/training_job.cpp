// The options of a training on the engine, and the job that they make.
#include "tuner/cli/training_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "tuner/cli/gpu_cluster.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/scenario_options.h"
#include "tuner/cli/trial_device.h"
#include "tuner/model/presets.h"
#include "tuner/space/rules.h"

namespace tuner {

using engine::AttentionKind;
using engine::Job;
using engine::ParallelPlan;
using engine::Precision;

namespace {

constexpr int64_t kDefaultSeq = 1024;
constexpr int64_t kDefaultBatch = 32;
constexpr int64_t kDefaultSteps = 1000;
// Micro-batches grow up to this, where matrix products are about as fast as they get.
constexpr int64_t kMicroBatchTokens = 2048;
constexpr double kMinimumOfRate = 0.1;
constexpr int64_t kWarmupPart = 50;  // of the steps

// Sets `target` where the option was given.
void take(const Arguments& arguments, const char* name, int64_t& target) {
  target = arguments.integer(name).value_or(target);
}
void take(const Arguments& arguments, const char* name, int& target) {
  target = static_cast<int>(arguments.integer(name).value_or(target));
}
void take(const Arguments& arguments, const char* name, double& target) {
  target = arguments.number(name).value_or(target);
}

void take_plan(const Arguments& arguments, ParallelPlan& plan) {
  take(arguments, "--tp", plan.tp);
  take(arguments, "--pp", plan.pp);
  take(arguments, "--vpp", plan.vpp);
  take(arguments, "--dp", plan.dp);
  take(arguments, "--cp", plan.cp);
  take(arguments, "--zero", plan.zero);
  take(arguments, "--mbs", plan.mbs);
  take(arguments, "--gbs", plan.gbs);
  plan.sp = arguments.toggle("--sp").value_or(plan.sp);
  if (const auto text = arguments.text("--recompute"))
    plan.recompute = engine::parse_recompute(*text);
  const auto& layers = arguments.integers("--layers-per-stage");
  if (!layers.empty()) plan.layers_per_stage = {layers.begin(), layers.end()};
}

void take_workload(const Arguments& arguments, engine::Workload& workload) {
  take(arguments, "--seq", workload.seq);
  if (const auto precision = arguments.text("--precision"))
    workload.precision = *precision == "bf16" ? Precision::bf16 : Precision::f32;
  if (const auto attention = arguments.text("--attention"))
    workload.attention = *attention == "flash" ? AttentionKind::flash : AttentionKind::unfused;
}

void take_training(const Arguments& arguments, Job& job) {
  take(arguments, "--steps", job.steps);
  take(arguments, "--lr", job.optimizer.learning_rate);
  if (arguments.has("--lr"))
    job.optimizer.minimum_rate = kMinimumOfRate * *arguments.number("--lr");
  take(arguments, "--min-lr", job.optimizer.minimum_rate);
  take(arguments, "--warmup-steps", job.optimizer.warmup_steps);
  take(arguments, "--weight-decay", job.optimizer.weight_decay);
  take(arguments, "--clip", job.optimizer.clip_norm);
  take(arguments, "--save-every", job.checkpoint_interval);
  take(arguments, "--validate-every", job.validation_interval);
  take(arguments, "--validation-batches", job.validation_batches);
}

int64_t default_micro_batch(const Job& job) {
  const ParallelPlan& plan = job.plan;
  const int64_t share = plan.gbs / std::max(1, plan.dp);
  const int64_t most = plan.pp > 1 ? 1 : std::max<int64_t>(1, kMicroBatchTokens / job.workload.seq);
  for (int64_t mbs = std::min(most, share); mbs > 1; --mbs)
    if (share % mbs == 0) return mbs;
  return 1;
}

std::vector<std::string> broken_rules(const Job& job, const ClusterSpec& cluster) {
  Scenario scenario;
  scenario.model = job.model;
  scenario.cluster = cluster;
  scenario.stack = find_stack("autotune");
  scenario.workload = job.workload;
  std::vector<engine::Violation> found = scenario_violations(scenario);
  for (engine::Violation& violation : violations(scenario, job.plan))
    found.push_back(std::move(violation));
  std::vector<std::string> problems;
  for (const engine::Violation& v : found)
    problems.push_back(v.nearest.empty() ? fmt::format("{} {}", v.code, v.message)
                                         : fmt::format("{} {}; nearest: {}", v.code, v.message,
                                                       fmt::join(v.nearest, ", ")));
  return problems;
}

Job checked(Job job, TrialDevice device) {
  job.workload.gbs = job.plan.gbs;
  const int ranks = job.plan.world();
  const bool on_cpu = device == TrialDevice::cpu;
  const ClusterSpec cluster = on_cpu
                                  ? host_cluster(this_host(), ranks, "").cluster
                                  : gpu_cluster(ask_worker(find_worker(device)), ranks, "").cluster;
  if (const auto problems = broken_rules(job, cluster); !problems.empty())
    throw engine::InputError(problems);
  job.memory_limit_bytes = on_cpu ? cluster.device.memory_bytes : 0;  // a GPU knows its own
  return job;
}

Option real(const std::string& name, const std::string& help, const std::string& fallback,
            double high) {
  return {.name = name,
          .kind = ValueKind::number,
          .placeholder = "X",
          .help = help,
          .default_text = fallback,
          .high = high};
}

}  // namespace

std::vector<Option> training_options() {
  std::vector<Option> options = {
      {.name = "--model",
       .kind = ValueKind::text,
       .placeholder = "MODEL",
       .help = "A preset, a size such as 25m, or the path of a Hugging Face config.json",
       .default_text = "that of --from",
       .suggest = model_names},
      count_option("--vocab", "Tokens that the model knows; bytes need 257", "the model's"),
      count_option("--steps", "Updates of the weights", "1000"),
      count_option("--seq", "Tokens of a sequence", "the preset's, else at most 1024"),
      count_option("--gbs", "Sequences a step, of all replicas together", "the preset's, else 32"),
      {.name = "--precision",
       .kind = ValueKind::text,
       .help = "Of weights and activations; the optimizer works in f32",
       .default_text = "f32",
       .choices = {"f32", "bf16"}},
      {.name = "--attention",
       .kind = ValueKind::text,
       .help = "Attention kernel",
       .default_text = "flash",
       .choices = {"unfused", "flash"}},
      real("--lr", "Highest learning rate", "0.0006", 1e3),
      real("--min-lr", "Rate at the end of the cosine", "a tenth of --lr", 1e3),
      count_option("--warmup-steps", "Steps in which the rate rises", "a fiftieth of the steps", 0),
      real("--weight-decay", "Of weights, not of biases and norms", "0.1", 1e3),
      real("--clip", "Largest norm of the gradient; 0 = any", "1", 1e9),
      count_option("--save-every", "Steps between checkpoints; 0 = one at the end", "0", 0),
      count_option("--validate-every", "Steps between validations; 0 = one at the end", "0", 0),
      count_option("--validation-batches", "Global batches of a validation", "4"),
      count_option("--seed", "Of weights, dropout and the order of the data", "1", 0)};
  for (Option& option : plan_options()) options.push_back(std::move(option));
  return options;
}

Job new_training_job(const Arguments& arguments) {
  Job job;
  job.model =
      find_model(arguments.has("--model") ? *arguments.text("--model")
                                          : arguments.text("--from").value() + "/config.json");
  take(arguments, "--vocab", job.model.vocab);
  const engine::ModelSpec& model = job.model;
  job.workload.seq = model.default_seq > 0 ? model.default_seq
                     : model.positions > 0 ? std::min(kDefaultSeq, model.positions)
                                           : kDefaultSeq;
  job.plan.gbs = model.default_gbs > 0 ? model.default_gbs : kDefaultBatch;
  job.workload.precision = Precision::f32;
  job.workload.attention = AttentionKind::flash;
  job.steps = kDefaultSteps;
  job.seed = static_cast<uint64_t>(arguments.integer("--seed").value_or(1));
  take_training(arguments, job);
  if (!arguments.has("--warmup-steps")) job.optimizer.warmup_steps = job.steps / kWarmupPart;
  job.warmup_steps = std::min<int64_t>(1, job.steps - 1);
  take_workload(arguments, job.workload);
  take_plan(arguments, job.plan);
  if (!arguments.has("--mbs")) job.plan.mbs = default_micro_batch(job);
  return checked(std::move(job), trial_device_of(arguments));
}

Job changed_training_job(const Arguments& arguments, Job job) {
  for (const char* name : {"--model", "--vocab", "--seed"})
    if (arguments.has(name))
      throw engine::InputError(
          fmt::format("{} cannot change while a training goes on; leave it out, or begin another "
                      "one in another folder",
                      name));
  take_training(arguments, job);
  take_workload(arguments, job.workload);
  take_plan(arguments, job.plan);
  return checked(std::move(job), trial_device_of(arguments));
}

}  // namespace tuner
