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
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/base/units.h"
#include "tuner/profile/process.h"

namespace tuner {

namespace fs = std::filesystem;
using engine::Json;
using engine::Outcome;
using engine::OutcomeStatus;

namespace {

constexpr double kGraceSeconds = 2;  // a worker that is asked to end finishes its step
constexpr auto kLook = std::chrono::milliseconds(20);

void write_text(const std::string& path, const std::string& text) {
  engine::FileWriter file(path);
  file.append(text.data(), text.size());
  file.close();
}

// The last lines of a file, as one; empty when there are none.
std::string last_lines(const std::string& path) {
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

// Follows the events of a running worker.
class EventReader {
 public:
  EventReader(std::string path, int64_t warmup_steps)
      : path_(std::move(path)), warmup_steps_(warmup_steps) {}

  // Reads what was added. Lines that are no events are passed over: the Outcome decides.
  void read() {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(offset_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      offset_ += static_cast<std::streamoff>(line.size()) + 1;
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || event.value("event", Json()) != "step") continue;
      const Json step = event.value("step", Json()), seconds = event.value("seconds", Json());
      if (!step.is_number_integer() || !seconds.is_number()) continue;
      if (step.get<int64_t>() >= warmup_steps_) samples_.push_back(seconds.get<double>());
    }
  }
  const std::vector<double>& samples() const { return samples_; }

 private:
  std::string path_;
  int64_t warmup_steps_;
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

Outcome crashed(const Process& process, const std::string& problem, const std::string& folder) {
  std::string reason =
      process.signal() != 0
          ? fmt::format("signal {} ({}) ended the worker{}", process.signal(),
                        strsignal(process.signal()),
                        process.signal() == SIGKILL ? ", perhaps for want of memory" : "")
          : fmt::format("the worker ended with code {}: {}", process.exit_code(), problem);
  if (const std::string said = last_lines(folder + "/stderr"); !said.empty())
    reason += "; it said: " + said;
  return failed(OutcomeStatus::crashed, reason + "; see " + folder);
}

// One slow step may be another program's doing.
bool is_hopeless(const std::vector<double>& samples, double limit) {
  return limit > 0 && samples.size() >= 2 &&
         std::all_of(samples.begin(), samples.end(), [&](double x) { return x > limit; });
}

// Watches a running trial until it ends by itself (nothing) or has to be ended (how).
std::optional<Outcome> watch(Process& process, EventReader& events, const TrialLimits& limits,
                             bool& gave_up) {
  const auto start = std::chrono::steady_clock::now();
  while (!process.has_ended()) {
    if (limits.stop != nullptr && *limits.stop != 0)
      return failed(OutcomeStatus::interrupted, "asked to stop");
    const double passed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (passed > limits.budget_seconds)
      return failed(OutcomeStatus::interrupted, "the measuring budget ended");
    if (passed > limits.deadline_seconds)
      return failed(
          OutcomeStatus::timed_out,
          fmt::format("no end after {}; {} steps were done",
                      engine::format_seconds(limits.deadline_seconds), events.samples().size()));
    events.read();
    if (is_hopeless(events.samples(), limits.hopeless_seconds)) {
      gave_up = true;
      return failed(OutcomeStatus::interrupted,
                    fmt::format("stopped: a step took {}, far more than the best plan's",
                                engine::format_seconds(events.samples().back())));
    }
    std::this_thread::sleep_for(kLook);
  }
  return std::nullopt;
}

}  // namespace

Launcher Launcher::find(LauncherKind kind, TrialDevice device) {
  // Threads that wait sleep: ranks share the cores with each other and with other programs.
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const Launcher launcher{kind, find_worker(device)};
  if (kind == LauncherKind::mpirun && !is_in_path("mpirun"))
    throw engine::Error(engine::ExitCode::environment,
                        "mpirun is not in PATH; install Open MPI, or use --launcher local");
  return launcher;
}

std::vector<std::string> Launcher::command(int ranks, const std::string& job_path) const {
  if (kind == LauncherKind::local) return {worker, job_path};
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
  const std::vector<std::string> words = launcher.command(job.plan.world(), job_path);
  write_text(folder + "/command", fmt::format("{}\n", fmt::join(words, " ")));

  TrialEnd end;
  const auto start = std::chrono::steady_clock::now();
  Process process(words, folder + "/stdout", folder + "/stderr");
  EventReader events(job.events_path, job.warmup_steps);
  if (!process.start_error().empty()) {
    end.outcome = failed(OutcomeStatus::rejected, fmt::format("'{}' cannot be started: {}",
                                                              words[0], process.start_error()));
  } else if (auto stopped = watch(process, events, limits, end.gave_up)) {
    process.end(kGraceSeconds);
    end.outcome = std::move(*stopped);
  } else {
    std::string problem;
    if (auto outcome = read_outcome(job.outcome_path, problem)) {
      end.outcome = std::move(*outcome);
    } else {
      end.outcome = crashed(process, problem, folder);
      end.died_by_signal = process.signal() != 0;
    }
  }
  end.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  events.read();
  end.samples =
      end.outcome.samples_seconds.empty() ? events.samples() : end.outcome.samples_seconds;
  end.outcome.samples_seconds = end.samples;
  return end;
}

}  // namespace tuner
