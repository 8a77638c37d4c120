// autotune run train: trains a model on text with the built-in engine.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/progress.h"
#include "tuner/cli/stop_signals.h"
#include "tuner/cli/training_data.h"
#include "tuner/cli/training_job.h"
#include "tuner/cli/trial_device.h"
#include "tuner/profile/launcher.h"

namespace tuner {

using engine::ExitCode;
using engine::Job;
using engine::Json;
using engine::OutcomeStatus;

namespace {

namespace fs = std::filesystem;

constexpr double kNever = 1e18;
// A step and a checkpoint may take as long; a second Ctrl-C ends at once.
constexpr double kGraceSeconds = 24 * 3600;
constexpr size_t kRecentSteps = 20;

// What the events of a training have told so far.
class Story {
 public:
  explicit Story(const Job& job) : job_(job) {}

  void add(const Json& event) {
    const std::string name = event.value("event", "");
    if (name == "step") add_step(event);
    if (name == "validation") validation_loss = event.value("loss", Json());
    if (name == "start") done = event.value("step", int64_t{0});
    if (name == "checkpoint") {
      checkpoint = event.value("folder", "");
      checkpoint_step = event.value("step", int64_t{0});
    }
  }

  double tokens_per_second() const {
    double seconds = 0;
    for (const double x : recent_) seconds += x;
    return seconds > 0 ? static_cast<double>(recent_.size()) * tokens_per_step() / seconds : 0;
  }
  double tokens_per_step() const { return static_cast<double>(job_.plan.gbs * job_.workload.seq); }
  std::string progress() const {
    const double rate = tokens_per_second();
    std::string text = fmt::format("step {} of {}: {}; {} tokens/s", engine::format_grouped(done),
                                   engine::format_grouped(job_.steps), losses(),
                                   engine::format_grouped(static_cast<int64_t>(rate)));
    const double left = static_cast<double>(job_.steps - done) * tokens_per_step();
    if (left > 0 && rate > 0) text += fmt::format("; {} left", engine::format_seconds(left / rate));
    return text;
  }
  std::string losses() const {
    std::string text = "loss " + number(loss);
    if (!validation_loss.is_null()) text += ", validation " + number(validation_loss);
    return text;
  }

  int64_t done = 0;        // steps, with those before this run
  int64_t made_here = 0;   // of this run
  std::string checkpoint;  // the last one of this run
  int64_t checkpoint_step = 0;
  Json loss, validation_loss;

 private:
  void add_step(const Json& event) {
    done = event.value("step", int64_t{0}) + 1;
    ++made_here;
    loss = event.value("loss", Json());
    recent_.push_back(event.value("seconds", 0.0));
    if (recent_.size() > kRecentSteps) recent_.pop_front();
  }
  static std::string number(const Json& value) {
    return value.is_number() ? fmt::format("{:.4f}", value.get<double>()) : "not a number";
  }

  const Job& job_;
  std::deque<double> recent_;
};

// Steps behind which a checkpoint lies in the folder; 0 = none does.
int64_t checkpoint_in(const std::string& folder) {
  constexpr std::string_view kPrefix = "step-";
  int64_t last = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (const std::string name = entry.path().filename(); name.starts_with(kPrefix))
      last = std::max<int64_t>(last, std::atoll(name.c_str() + kPrefix.size()));
  return last;
}

Job stored_job(const std::string& folder) {
  const std::string path = folder + "/job.json";
  if (!fs::exists(path))
    throw engine::InputError(
        fmt::format("{} holds no training to go on with; leave out --resume to begin one", folder));
  return engine::job_from_json(engine::parse_json(engine::read_text_file(path), path), path);
}

// Absolute, so that a training can go on from another folder.
std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

// A training that is begun, or the one in the folder.
Job job_of(const Arguments& arguments, const std::string& folder, const std::atomic<int>& stop) {
  const TextSource data{arguments.texts("--data"), arguments.text("--tokenizer").value_or("bytes")};
  const TextSource held_out{arguments.texts("--validation"), data.tokenizer};
  const std::string train = folder + "/data/train", validation = folder + "/data/validation";
  if (arguments.flag("--resume")) {
    Job job = changed_training_job(arguments.typed_only(), stored_job(folder));
    job.checkpoint_save = folder;  // it may have been moved
    if (fs::exists(train + ".idx")) job.data_prefix = train;
    if (fs::exists(validation + ".idx")) job.validation_prefix = validation;
    if (!data.files.empty()) job.data_prefix = token_files(data, train, stop);
    if (!held_out.files.empty()) job.validation_prefix = token_files(held_out, validation, stop);
    const int64_t made = checkpoint_in(folder);
    if (made >= job.steps)
      throw engine::InputError(fmt::format(
          "the training in {} has made its {} steps; add --steps with more", folder, made));
    if (made > 0) job.checkpoint_load = folder;
    return job;
  }
  std::vector<std::string> missing;
  if (!arguments.has("--model") && !arguments.has("--from"))
    missing.emplace_back("--model is needed to begin a training");
  if (data.files.empty()) missing.emplace_back("--data is needed to begin a training");
  if (!missing.empty()) throw engine::InputError(missing);
  if (checkpoint_in(folder) > 0)
    throw engine::InputError(fmt::format(
        "{} already holds a training; add --resume to go on with it, or name another --output",
        folder));
  Job job = new_training_job(arguments);
  job.checkpoint_load = absolute(arguments.text("--from").value_or(""));
  job.checkpoint_save = folder;
  job.data_prefix = absolute(token_files(data, train, stop));
  if (!held_out.files.empty())
    job.validation_prefix = absolute(token_files(held_out, validation, stop));
  return job;
}

// The engine's codes are this program's; what a launcher says of a killed rank is no code of ours.
int exit_code_of(const TrialEnd& end, int stopped_by) {
  if (stopped_by == SIGINT) return static_cast<int>(ExitCode::interrupted);
  if (stopped_by != 0) return static_cast<int>(ExitCode::terminated);
  const bool known = end.exit_code >= 0 && end.exit_code <= static_cast<int>(ExitCode::environment);
  return known ? end.exit_code : static_cast<int>(ExitCode::internal);
}

void print_json(const Job& job, const Story& story, const TrialEnd& end) {
  Json answer = {{"schema", "autotune.run_train/1"},
                 {"status", name_of(end.outcome.status)},
                 {"reason", end.outcome.reason},
                 {"plan", engine::plan_to_json(job.plan, job.model.layers)},
                 {"parameters", parameter_count(job.model)},
                 {"steps", job.steps},
                 {"steps_done", story.done},
                 {"tokens_seen",
                  static_cast<int64_t>(static_cast<double>(story.done) * story.tokens_per_step())},
                 {"loss", story.loss},
                 {"validation_loss", story.validation_loss},
                 {"tokens_per_second", story.tokens_per_second()},
                 {"wall_seconds", end.wall_seconds},
                 {"checkpoint", nullptr},
                 {"outcome", engine::outcome_to_json(end.outcome)}};
  if (!story.checkpoint.empty()) answer["checkpoint"] = story.checkpoint;
  print_result(json_text(answer) + "\n");
}

void print_text(const Job& job, const Story& story, const TrialEnd& end) {
  if (story.made_here == 0) return;
  print_result(fmt::format(
      "step {} of {}: {}\n{} steps in {}, {} tokens/s\n", engine::format_grouped(story.done),
      engine::format_grouped(job.steps), story.losses(), engine::format_grouped(story.made_here),
      engine::format_seconds(end.wall_seconds),
      engine::format_grouped(static_cast<int64_t>(story.tokens_per_second()))));
  if (!story.checkpoint.empty()) print_result(fmt::format("checkpoint: {}\n", story.checkpoint));
}

void tell_ending(const Job& job, const Story& story, const TrialEnd& end, int stopped_by) {
  const std::string folder = job.checkpoint_save;
  if (stopped_by != 0) {
    const std::string place = story.checkpoint.empty()
                                  ? "before the end of its first step"
                                  : fmt::format("behind step {}", story.checkpoint_step);
    print_message(
        fmt::format("interrupted {}; `autotune run train --resume --output {}` goes on "
                    "from there\n",
                    place, folder));
    return;
  }
  if (end.outcome.status == OutcomeStatus::ok) return;
  print_message(fmt::format("error: {}\n", end.outcome.reason));
  if (!story.checkpoint.empty())
    print_message(fmt::format("the checkpoint of step {} is whole\n", story.checkpoint_step));
}

int run_train_on_engine(const Arguments& arguments) {
  const std::string folder = arguments.text("--output").value();
  const auto kind = arguments.text("--launcher").value_or("local") == "mpirun"
                        ? LauncherKind::mpirun
                        : LauncherKind::local;
  const Launcher launcher = Launcher::find(kind, trial_device_of(arguments));
  const StopSignals signals;
  const Job job = job_of(arguments, folder, signals.seen());
  fs::create_directories(folder);
  Story story(job);
  TrialEnd end;
  {
    ProgressLine line;
    TrialLimits limits;
    limits.deadline_seconds = limits.budget_seconds = kNever;
    limits.grace_seconds = kGraceSeconds;
    limits.stop = &signals.seen();
    limits.on_event = [&](const Json& event) {
      story.add(event);
      if (story.made_here > 0) line.tell(story.progress());
    };
    end = run_trial(launcher, job, folder, limits);
  }
  const int stopped_by = signals.seen();
  if (arguments.flag("--json"))
    print_json(job, story, end);
  else
    print_text(job, story, end);
  tell_ending(job, story, end, stopped_by);
  return exit_code_of(end, stopped_by);
}

std::vector<Option> file_options() {
  return {{.name = "--output",
           .kind = ValueKind::text,
           .placeholder = "FOLDER",
           .help = "Checkpoints, tokens and the record of the training",
           .required = true},
          {.name = "--data",
           .kind = ValueKind::texts,
           .placeholder = "FILES",
           .help = "The prefix of .bin/.idx files, or text files and JSON lines (*.jsonl)"},
          {.name = "--validation",
           .kind = ValueKind::texts,
           .placeholder = "FILES",
           .help = "Held-out text, as --data; its loss is told, too"},
          {.name = "--tokenizer",
           .kind = ValueKind::text,
           .placeholder = "NAME",
           .help = "Of text files: bytes, or the path of a sentencepiece model",
           .default_text = "bytes"},
          {.name = "--from",
           .kind = ValueKind::text,
           .placeholder = "FOLDER",
           .help = "Begin with the weights of this checkpoint (safetensors, Hugging Face's names)"},
          {.name = "--resume",
           .help = "Go on with the training in --output; other options change it, even its plan"}};
}

}  // namespace

Command run_train_command() {
  Command command{
      .words = "run train",
      .summary = "Train a model on text with the built-in engine",
      .description =
          "Ranks share this machine: --tp 2 --dp 2 trains on four. Degrees that are not given are "
          "1. Ctrl-C finishes the step, saves a checkpoint and ends; --resume goes on from the "
          "last checkpoint with the same results as if nothing had happened. Checkpoints are "
          "safetensors with Hugging Face's names.",
      .examples = {{"run train --model 1m --vocab 257 --data book.txt --seq 128 --output runs/book",
                    "A small GPT on a text file, bytes as tokens"},
                   {"run train --resume --output runs/book --steps 3000", "Go on, and longer"},
                   {"run train --model ./config.json --data data/web --validation data/held-out "
                    "--validate-every 100 --tp 2 --sp --precision bf16 --output runs/web",
                    "Token files, on two tensor-parallel ranks"}},
      .options = file_options(),
      .run = run_train_on_engine};
  for (Option& option : training_options()) command.options.push_back(std::move(option));
  command.options.push_back(
      device_option("What the ranks run on: this machine's processor or its GPUs", "cpu"));
  command.options.push_back({.name = "--launcher",
                             .kind = ValueKind::text,
                             .help = "Ranks as threads of one process, or as processes of mpirun",
                             .default_text = "local",
                             .choices = {"local", "mpirun"}});
  command.options.push_back(json_option());
  return command;
}

}  // namespace tuner
