// From a job to a process, and from the end of the process to an Outcome.
#include "tuner/profile/launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/profile/execution.h"
#include "tuner/profile/process.h"

namespace tuner {

namespace fs = std::filesystem;
using engine::Json;
using engine::Outcome;
using engine::OutcomeStatus;

namespace {

constexpr auto kLook = std::chrono::milliseconds(20);

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_text(const std::string& path, const std::string& text) {
  engine::FileWriter file(path);
  file.append(text.data(), text.size());
  file.close();
}

// Follows the events of a worker that is started next.
class EventReader {
 public:
  EventReader(std::string path, int64_t warmup_steps, const TrialLimits& limits)
      : path_(std::move(path)), warmup_steps_(warmup_steps), on_event_(limits.on_event) {
    std::error_code none;
    const auto before = fs::file_size(path_, none);
    if (!none) offset_ = static_cast<std::streamoff>(before);
  }

  // Reads what was added. Lines that are no events are passed over: the Outcome decides.
  void read() {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(offset_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      offset_ += static_cast<std::streamoff>(line.size()) + 1;
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object()) continue;
      if (on_event_) on_event_(event);
      if (event.value("event", Json()) != "step") continue;
      const Json step = event.value("step", Json()), seconds = event.value("seconds", Json());
      if (!step.is_number_integer() || !seconds.is_number()) continue;
      if (step.get<int64_t>() >= warmup_steps_) samples_.push_back(seconds.get<double>());
    }
  }
  const std::vector<double>& samples() const { return samples_; }

 private:
  std::string path_;
  int64_t warmup_steps_;
  const std::function<void(const Json&)>& on_event_;
  std::streamoff offset_ = 0;
  std::vector<double> samples_;
};

Outcome failed(OutcomeStatus status, std::string reason) {
  Outcome outcome;
  outcome.measured = true;
  outcome.status = status;
  outcome.reason = std::move(reason);
  return outcome;
}

// Why the worker's Outcome cannot be used; nothing when it can.
std::optional<Outcome> read_outcome(const std::string& path, std::string& problem) {
  try {
    Outcome outcome =
        engine::outcome_from_json(engine::parse_json(engine::read_text_file(path), path), path);
    if (outcome.status != OutcomeStatus::ok) return outcome;
    if (std::isfinite(outcome.step_seconds) && outcome.step_seconds > 0) return outcome;
    problem = "its outcome has no step time";
  } catch (const engine::Error& error) {
    std::error_code ignored;
    problem = fs::exists(path, ignored) ? error.what() : "it wrote no outcome";
  }
  return std::nullopt;
}

// A process of this machine: the worker itself, or mpirun.
class LocalExecution final : public Execution {
 public:
  LocalExecution(const std::vector<std::string>& words, const std::string& folder)
      : program_(words[0]),
        folder_(folder),
        process_(words, folder + "/stdout", folder + "/stderr") {}

  bool has_ended() override { return process_.has_ended(); }
  void end(double grace_seconds) override { process_.end(grace_seconds); }

  std::optional<Failure> failure() const override {
    if (process_.start_error().empty()) return std::nullopt;
    return Failure{OutcomeStatus::rejected,
                   fmt::format("'{}' cannot be started: {}", program_, process_.start_error()),
                   false};
  }

  int exit_code() const override {
    return process_.start_error().empty() ? process_.exit_code() : -1;
  }

  Failure without_outcome(const std::string& problem) const override {
    const int signal = process_.signal();
    std::string reason =
        signal != 0
            ? fmt::format("signal {} ({}) ended the worker{}", signal, strsignal(signal),
                          signal == SIGKILL ? ", perhaps for want of memory" : "")
            : fmt::format("the worker ended with code {}: {}", process_.exit_code(), problem);
    if (const std::string said = last_words(folder_ + "/stderr"); !said.empty())
      reason += "; it said: " + said;
    // mpirun and shells tell a signal that ended one of theirs as 128 and its number.
    const bool by_signal = signal != 0 || process_.exit_code() > 128;
    return {OutcomeStatus::crashed, reason + "; see " + folder_, by_signal};
  }

 private:
  std::string program_, folder_;
  Process process_;
};

std::unique_ptr<Execution> start(const Launcher& launcher, const std::vector<std::string>& words,
                                 const std::string& folder) {
  if (launcher.kind == LauncherKind::slurm) return start_slurm(launcher.slurm, words, folder);
  return std::make_unique<LocalExecution>(words, folder);
}

// One slow step may be another program's doing.
bool is_hopeless(const std::vector<double>& samples, double limit) {
  return limit > 0 && samples.size() >= 2 &&
         std::all_of(samples.begin(), samples.end(), [&](double x) { return x > limit; });
}

// Watches a running trial until it ends by itself (nothing) or has to be ended (how).
std::optional<Outcome> watch(Execution& execution, EventReader& events, const TrialLimits& limits,
                             TrialEnd& end) {
  auto start = std::chrono::steady_clock::now();
  while (!execution.has_ended()) {
    if (limits.stop != nullptr && *limits.stop != 0)
      return failed(OutcomeStatus::interrupted, "asked to stop");
    if (execution.is_waiting()) start = std::chrono::steady_clock::now();
    const double passed = end.wall_seconds = seconds_since(start);
    if (passed > limits.budget_seconds)
      return failed(OutcomeStatus::interrupted, "the measuring budget ended");
    if (passed > limits.deadline_seconds)
      return failed(
          OutcomeStatus::timed_out,
          fmt::format("no end after {}; {} steps were done",
                      engine::format_seconds(limits.deadline_seconds), events.samples().size()));
    events.read();
    if (is_hopeless(events.samples(), limits.hopeless_seconds)) {
      end.gave_up = true;
      return failed(OutcomeStatus::interrupted,
                    fmt::format("stopped: a step took {}, far more than the best plan's",
                                engine::format_seconds(events.samples().back())));
    }
    std::this_thread::sleep_for(kLook);
  }
  end.wall_seconds = seconds_since(start);
  return std::nullopt;
}

// What became of a trial that ended by itself.
Outcome settle(const Execution& execution, const std::string& outcome_path, TrialEnd& end) {
  std::string problem;
  std::optional<Outcome> outcome = read_outcome(outcome_path, problem);
  if (outcome && outcome->status == OutcomeStatus::ok) return std::move(*outcome);
  std::optional<Failure> failure = execution.failure();
  if (!failure && outcome) return std::move(*outcome);
  if (!failure) failure = execution.without_outcome(problem);
  end.by_chance = failure->by_chance;
  return failed(failure->status, std::move(failure->reason));
}

}  // namespace

std::string last_words(const std::string& path) {
  constexpr size_t kMost = 400;
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  std::string text = all.str();
  if (text.size() > kMost) text.erase(0, text.size() - kMost);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Launcher Launcher::find(LauncherKind kind, TrialDevice device) {
  // Threads that wait spin about as long as waking them takes, then sleep: ranks share the cores
  // with each other and with other programs. (On a virtual machine a wake-up took 50 µs; of a
  // decoding step of a tiny model a third. More turns than these gained nothing.)
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("GOMP_SPINCOUNT", "20000", 0);
  }
  const Launcher launcher{kind, find_worker(device), {}};
  if (kind == LauncherKind::mpirun && !is_in_path("mpirun"))
    throw engine::Error(engine::ExitCode::environment,
                        "mpirun is not in PATH; install Open MPI, or use --launcher local");
  for (const char* command : {"sbatch", "scontrol", "scancel"})
    if (kind == LauncherKind::slurm && !is_in_path(command))
      throw engine::Error(
          engine::ExitCode::environment,
          fmt::format("{} is not in PATH; run autotune where jobs are submitted to Slurm, or use "
                      "--launcher local",
                      command));
  return launcher;
}

std::string Launcher::description() const {
  if (kind == LauncherKind::local) return "local";
  if (kind == LauncherKind::mpirun) return "mpirun";
  return fmt::format("slurm partition '{}' {} a node {}", slurm.partition, slurm.ranks_per_node,
                     fmt::join(slurm.flags, " "));
}

std::vector<std::string> Launcher::command(int ranks, const std::string& job_path,
                                           double deadline_seconds) const {
  if (kind == LauncherKind::local) return {worker, job_path};
  if (kind == LauncherKind::slurm)
    return sbatch_command(slurm, ranks, worker, job_path, deadline_seconds);
  std::vector<std::string> words = {"mpirun",          "-n",        std::to_string(ranks),
                                    "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  words.push_back(worker);
  words.push_back(job_path);
  return words;
}

TrialEnd run_trial(const Launcher& launcher, engine::Job job, const std::string& folder,
                   const TrialLimits& limits) {
  job.events_path = folder + "/events.jsonl";
  job.outcome_path = folder + "/outcome.json";
  const std::string job_path = folder + "/job.json";
  write_text(job_path, engine::job_to_json(job).dump(2) + "\n");
  const std::vector<std::string> words =
      launcher.command(job.ranks(), job_path, limits.deadline_seconds);
  write_text(folder + "/command", fmt::format("{}\n", fmt::join(words, " ")));

  TrialEnd end;
  std::error_code ignored;
  fs::remove(job.outcome_path, ignored);  // of an earlier job
  EventReader events(job.events_path, job.warmup_steps, limits);
  const std::unique_ptr<Execution> execution = start(launcher, words, folder);
  if (auto stopped = watch(*execution, events, limits, end)) {
    execution->end(limits.grace_seconds);
    end.outcome = std::move(*stopped);
  } else {
    end.outcome = settle(*execution, job.outcome_path, end);
  }
  end.exit_code = execution->exit_code();
  events.read();
  end.samples =
      end.outcome.samples_seconds.empty() ? events.samples() : end.outcome.samples_seconds;
  end.outcome.samples_seconds = end.samples;
  return end;
}

}  // namespace tuner
