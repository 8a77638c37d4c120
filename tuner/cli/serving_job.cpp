// The job of a checkpoint that is run on the engine.
#include "tuner/cli/serving_job.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/plan/checkpoint_folder.h"
#include "tuner/cli/host_cluster.h"
#include "tuner/cli/trial_device.h"
#include "tuner/model/presets.h"

namespace tuner {

namespace fs = std::filesystem;
using engine::ExitCode;
using engine::OutcomeStatus;

namespace {

constexpr int64_t kDefaultBatch = 16;
constexpr int64_t kDefaultLongest = 2048;

engine::ModelSpec model_of(const std::string& checkpoint) {
  const std::string state = checkpoint + "/training_state.json";
  const std::string config = checkpoint + "/config.json";
  if (fs::exists(state)) {
    const auto json = engine::parse_json(engine::read_text_file(state), state);
    if (json.contains("job")) return engine::job_from_json(json["job"], state).model;
  }
  if (!fs::exists(config))
    throw engine::InputError(
        fmt::format("{}: holds no config.json; give the folder of a checkpoint with Hugging Face's "
                    "names",
                    checkpoint));
  return find_model(config);
}

}  // namespace

std::vector<Option> checkpoint_options() {
  return {{.name = "--checkpoint",
           .kind = ValueKind::text,
           .placeholder = "FOLDER",
           .help = "Weights: safetensors with a config.json, or the folder of a training",
           .required = true},
          tokenizer_option(),
          {.name = "--prompt-file",
           .kind = ValueKind::texts,
           .placeholder = "FILES",
           .help = "Virtual tokens that `autotune run tune` found, of one task or several"},
          count_option("--tp", "Tensor-parallel ranks", "1"),
          count_option("--pp", "Pipeline stages", "1"),
          count_option("--replicas", "Copies of the model that share the work", "1"),
          count_option("--batch", "Sequences a replica runs together, at most", "16"),
          count_option("--max-seq", "Longest sequence, prompt and answer",
                       "the model's, at most 2048", 2),
          {.name = "--precision",
           .kind = ValueKind::text,
           .help = "Of weights, activations and KV cache",
           .default_text = "f32",
           .choices = {"f32", "bf16"}},
          count_option("--seed", "Of the draws", "1", 0),
          device_option("What the ranks run on: this machine's processor or its GPUs", "cpu")};
}

engine::Job checkpoint_job(const Arguments& arguments) {
  const auto degree = [&](const char* name) {
    return static_cast<int>(arguments.integer(name).value_or(1));
  };
  engine::Job job;
  job.checkpoint_load = engine::find_checkpoint(arguments.text("--checkpoint").value());
  job.model = model_of(job.checkpoint_load);
  job.plan.tp = degree("--tp");
  job.plan.pp = degree("--pp");
  job.plan.dp = degree("--replicas");
  const int64_t limit = job.model.positions > 0 ? job.model.positions : kDefaultLongest;
  job.workload.seq = arguments.integer("--max-seq").value_or(std::min(limit, kDefaultLongest));
  if (job.workload.seq > limit)
    throw engine::InputError(
        fmt::format("--max-seq {} is longer than the model's {} positions; give at most that",
                    job.workload.seq, limit));
  job.workload.gbs = 1;
  job.workload.precision = arguments.text("--precision").value_or("f32") == "bf16"
                               ? engine::Precision::bf16
                               : engine::Precision::f32;
  job.seed = static_cast<uint64_t>(arguments.integer("--seed").value_or(1));
  job.steps = 1;
  job.warmup_steps = 0;
  if (trial_device_of(arguments) == TrialDevice::cpu)  // a GPU knows its own
    job.memory_limit_bytes =
        host_cluster(this_host(), job.plan.world(), "").cluster.device.memory_bytes;
  engine::ServingSpec& serving = job.serving.emplace();
  serving.batch = arguments.integer("--batch").value_or(kDefaultBatch);
  serving.arrival = engine::Arrival::saturated;
  serving.tokenizer = arguments.text("--tokenizer").value_or("bytes");
  serving.prompt_files = arguments.texts("--prompt-file");
  return job;
}

ScratchFolder::ScratchFolder() : path_((fs::temp_directory_path() / "autotune-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr)
    throw engine::Error(ExitCode::storage,
                        fmt::format("{} cannot be made: {}; set TMPDIR to a place that can be "
                                    "written",
                                    path_, std::strerror(errno)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

engine::Outcome run_job(const engine::Job& job, TrialDevice device, const std::string& folder,
                        const StopSignals& signals,
                        const std::function<void(const nlohmann::json&)>& on_event) {
  constexpr double kNever = 1e18;
  constexpr double kGraceSeconds = 60;
  TrialLimits limits;
  limits.deadline_seconds = limits.budget_seconds = kNever;
  limits.grace_seconds = kGraceSeconds;
  limits.stop = &signals.seen();
  limits.on_event = on_event;
  TrialEnd end = run_trial(Launcher::find(LauncherKind::local, device), job, folder, limits);
  if (const int signal = signals.seen(); signal != 0)
    throw engine::Error(signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated,
                        "interrupted; what was told until then is whole");
  switch (end.outcome.status) {
    case OutcomeStatus::ok:
      return std::move(end.outcome);
    case OutcomeStatus::out_of_memory:
      throw engine::Error(ExitCode::nothing_fits, end.outcome.reason);
    case OutcomeStatus::rejected:
      if (end.exit_code == static_cast<int>(ExitCode::environment))
        throw engine::Error(ExitCode::environment, end.outcome.reason);
      throw engine::InputError(end.outcome.reason);
    default:
      throw engine::Error(ExitCode::internal, end.outcome.reason);
  }
}

}  // namespace tuner
