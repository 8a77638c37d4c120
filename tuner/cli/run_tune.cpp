// autotune run tune: virtual tokens that adapt a checkpoint to tasks, without touching its weights.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/serving_job.h"
#include "tuner/cli/trial_device.h"

namespace tuner {

using engine::Json;
using engine::PromptSource;

namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultSteps = 500;
constexpr int64_t kDefaultBatch = 16;
constexpr double kDefaultRate = 0.03;
constexpr int64_t kWarmupPart = 20;  // of the steps

// A task is named after its file.
std::vector<engine::TuningTask> tasks_of(const Arguments& arguments) {
  const std::string folder = arguments.text("--output").value();
  std::vector<engine::TuningTask> tasks;
  for (const std::string& path : arguments.texts("--data")) {
    const std::string name = fs::path(path).stem();
    for (const engine::TuningTask& other : tasks)
      if (other.name == name)
        throw engine::InputError(
            fmt::format("{} and {}: two tasks of one name; rename one of the files",
                        other.examples_path, path));
    tasks.push_back({name, path, folder + "/" + name + ".safetensors"});
  }
  return tasks;
}

PromptSource source_of(const Arguments& arguments) {
  const std::string method = arguments.text("--method").value_or("prompt");
  const auto encoder = arguments.text("--encoder");
  if (method == "prompt") {
    if (encoder)
      throw engine::InputError("--encoder belongs to --method ptuning; prompt tunes a table");
    return PromptSource::table;
  }
  return encoder.value_or("lstm") == "mlp" ? PromptSource::mlp : PromptSource::lstm;
}

engine::Job tuning_job(const Arguments& arguments) {
  engine::Job job = checkpoint_job(arguments);
  engine::TuningSpec& tuning = job.tuning.emplace();
  tuning.tokenizer = job.serving->tokenizer;
  if (!job.serving->prompt_files.empty())
    throw engine::InputError("--prompt-file is for using virtual tokens; a tuning finds new ones");
  job.serving.reset();
  tuning.source = source_of(arguments);
  tuning.virtual_tokens = arguments.integer("--virtual-tokens").value_or(tuning.virtual_tokens);
  tuning.tasks = tasks_of(arguments);
  job.steps = arguments.integer("--steps").value_or(kDefaultSteps);
  job.warmup_steps = std::min<int64_t>(1, job.steps - 1);
  job.plan.gbs = arguments.integer("--batch").value_or(kDefaultBatch);
  job.workload.gbs = job.plan.gbs;
  job.workload.attention = engine::AttentionKind::flash;
  if (job.plan.gbs % job.plan.dp != 0)
    throw engine::InputError(
        fmt::format("--batch {} must be a multiple of --replicas {}", job.plan.gbs, job.plan.dp));
  const int64_t share = job.plan.gbs / job.plan.dp;
  job.plan.mbs = share % job.plan.pp == 0 ? share / job.plan.pp : 1;
  if (tuning.virtual_tokens >= job.workload.seq)
    throw engine::InputError(
        fmt::format("{} virtual tokens leave no room for a text in sequences of {}",
                    tuning.virtual_tokens, job.workload.seq));
  engine::OptimizerSpec& optimizer = job.optimizer;
  optimizer.learning_rate = arguments.number("--lr").value_or(kDefaultRate);
  optimizer.minimum_rate = 0;
  optimizer.weight_decay = 0;
  optimizer.warmup_steps = job.steps / kWarmupPart;
  return job;
}

int run_tune(const Arguments& arguments) {
  const engine::Job job = tuning_job(arguments);
  std::error_code error;
  fs::create_directories(arguments.text("--output").value(), error);
  if (error)
    throw engine::Error(
        engine::ExitCode::storage,
        fmt::format("{} cannot be made: {}", *arguments.text("--output"), error.message()));
  const ScratchFolder folder;
  const StopSignals signals;
  double loss = 0;
  int64_t done = 0;
  engine::Outcome outcome;
  {
    ProgressLine line;
    outcome =
        run_job(job, trial_device_of(arguments), folder.path(), signals, [&](const Json& event) {
          if (event.value("event", "") != "step") return;
          done = event.value("step", int64_t{0}) + 1;
          if (event["loss"].is_number()) loss = event["loss"].get<double>();
          line.tell(fmt::format("step {} of {}: loss {:.4f}", done, job.steps, loss));
        });
  }
  if (arguments.flag("--json")) {
    Json files = Json::array();
    for (const engine::TuningTask& task : job.tuning->tasks)
      files.push_back({{"task", task.name}, {"file", task.prompt_path}});
    print_result(
        json_text(Json{{"schema", "autotune.run_tune/1"},
                       {"method", job.tuning->source == PromptSource::table ? "prompt" : "ptuning"},
                       {"virtual_tokens", job.tuning->virtual_tokens},
                       {"steps", done},
                       {"loss", loss},
                       {"prompts", std::move(files)}}) +
        "\n");
    return 0;
  }
  print_result(fmt::format("{} steps, loss {:.4f}\n", done, loss));
  for (const engine::TuningTask& task : job.tuning->tasks)
    print_result(fmt::format("{}: {}\n", task.name, task.prompt_path));
  return 0;
}

}  // namespace

Command run_tune_command() {
  Command command{
      .words = "run tune",
      .summary = "Adapt a checkpoint to tasks by virtual tokens, its weights untouched",
      .description =
          "Prompt tuning (Lester et al. 2021) tunes the virtual tokens themselves, p-tuning (Liu "
          "et al. 2021) an encoder that gives them. Examples are JSON lines {\"text\", "
          "\"answer\"}; "
          "each file is a task, and all of them run side by side in one batch. The result is one "
          "small safetensors file a task, which --prompt-file of `run generate` and `run evaluate` "
          "takes.",
      .examples = {{"run tune --checkpoint runs/book --data mood.jsonl --output prompts",
                    "Prompt tuning of one task"},
                   {"run tune --checkpoint runs/book --data a.jsonl,b.jsonl --method ptuning "
                    "--output prompts --tp 2",
                    "p-tuning of two tasks, on two ranks"}},
      .options = {{.name = "--data",
                   .kind = ValueKind::texts,
                   .placeholder = "FILES",
                   .help = "Examples as JSON lines, a file a task",
                   .required = true},
                  {.name = "--output",
                   .kind = ValueKind::text,
                   .placeholder = "FOLDER",
                   .help = "For the files TASK.safetensors",
                   .required = true},
                  {.name = "--method",
                   .kind = ValueKind::text,
                   .help = "What is tuned: a table, or an encoder",
                   .default_text = "prompt",
                   .choices = {"prompt", "ptuning"}},
                  {.name = "--encoder",
                   .kind = ValueKind::text,
                   .help = "Of p-tuning",
                   .default_text = "lstm",
                   .choices = {"lstm", "mlp"}},
                  count_option("--virtual-tokens", "Virtual tokens of a task", "20"),
                  count_option("--steps", "Updates", "500"),
                  {.name = "--lr",
                   .kind = ValueKind::number,
                   .placeholder = "X",
                   .help = "Highest learning rate",
                   .default_text = "0.03",
                   .low = 1e-9,
                   .high = 1e3}},
      .run = run_tune};
  for (Option& option : checkpoint_options()) {
    if (option.name == "--batch") option.help = "Examples a step, of all tasks and replicas";
    command.options.push_back(std::move(option));
  }
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
