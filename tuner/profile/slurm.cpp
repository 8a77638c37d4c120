// Submitting, following and cancelling batch jobs.
#include "tuner/profile/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "engine/base/units.h"
#include "tuner/profile/cancel_guard.h"
#include "tuner/profile/process.h"

namespace tuner {

using Clock = std::chrono::steady_clock;
using engine::OutcomeStatus;

namespace {

constexpr double kCommandSeconds = 60;  // that a command of Slurm may take
constexpr double kShortestLook = 0.2, kLongestLook = 5;
constexpr auto kPause = std::chrono::milliseconds(10);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string name_of_job(const std::string& folder) {
  const std::string name = std::filesystem::path(folder).filename();
  return "autotune-" + (name.empty() ? "trial" : name);
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

struct CommandEnd {
  int code = 0;
  std::string output, errors;
};

// Runs a command of Slurm; its output lies in `folder` until the next one.
CommandEnd run(const std::vector<std::string>& words, const std::string& folder) {
  const std::string output = folder + "/slurm.stdout", errors = folder + "/slurm.stderr";
  Process process(words, output, errors);
  if (!process.start_error().empty()) return {127, "", words[0] + ": " + process.start_error()};
  const auto start = Clock::now();
  while (!process.has_ended()) {
    if (seconds_since(start) > kCommandSeconds) {
      process.end(1);
      return {124, "", words[0] + " does not answer"};
    }
    std::this_thread::sleep_for(kPause);
  }
  return {process.exit_code(), text_of(output), last_words(errors)};
}

class SlurmExecution final : public Execution {
 public:
  SlurmExecution(const SlurmOptions& options, const std::vector<std::string>& command,
                 const std::string& folder)
      : options_(options),
        folder_(folder),
        guard_({"scancel", "--name=" + name_of_job(folder)}),
        submitted_(Clock::now()) {
    const CommandEnd end = run(command, folder_);
    id_ = end.output.substr(0, end.output.find_first_of(";\n"));
    if (end.code != 0 || id_.empty()) {
      failure_ = Failure{OutcomeStatus::rejected, "Slurm refused the job: " + end.errors, false};
      guard_.dismiss();
    }
    job_.state = "PENDING";
  }
  ~SlurmExecution() override {
    if (!done_ && !failure_) cancel();
  }

  bool has_ended() override {
    if (failure_ || done_) return true;
    if (seconds_since(looked_) < pause_seconds()) return false;
    look();
    if (job_.has_ended()) finish();
    if (!done_ && is_waiting() && seconds_since(submitted_) > options_.wait_seconds) {
      failure_ =
          Failure{OutcomeStatus::rejected,
                  fmt::format("Slurm did not start job {} in {} ({}); allow more with "
                              "--slurm-wait, or ask for less",
                              id_, engine::format_seconds(options_.wait_seconds), job_.reason),
                  false};
      cancel();
    }
    return failure_ || done_;
  }

  bool is_waiting() const override { return !failure_ && !done_ && job_.is_waiting(); }

  void end(double grace_seconds) override {
    if (failure_ || done_) return;
    cancel();
    const auto start = Clock::now();
    while (!job_.has_ended() && seconds_since(start) < grace_seconds) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      look();
    }
    done_ = true;
  }

  std::optional<Failure> failure() const override {
    if (failure_) return failure_;
    const std::string which = fmt::format("job {} ", id_);
    const std::string& state = job_.state;
    if (state == "CANCELLED")
      return Failure{OutcomeStatus::interrupted, which + "was cancelled from outside", false};
    if (state == "PREEMPTED")
      return Failure{OutcomeStatus::interrupted, which + "was preempted by another", true};
    if (state == "NODE_FAIL" || state == "BOOT_FAIL")
      return Failure{OutcomeStatus::crashed,
                     fmt::format("Slurm lost a node of job {} ({})", id_, job_.nodes), true};
    if (state == "TIMEOUT" || state == "DEADLINE")
      return Failure{OutcomeStatus::timed_out, which + "reached the time limit of Slurm", false};
    if (state == "OUT_OF_MEMORY")
      return Failure{OutcomeStatus::out_of_memory,
                     which + "used more of the node's memory than Slurm gave it", false};
    return std::nullopt;
  }

  int exit_code() const override {
    const size_t colon = job_.exit_code.find(':');  // "code:signal"
    const bool by_itself = colon != std::string::npos && job_.exit_code.substr(colon) == ":0";
    return by_itself ? std::atoi(job_.exit_code.c_str()) : -1;
  }

  Failure without_outcome(const std::string& problem) const override {
    std::string reason = fmt::format("job {} ended as {} with code {}: {}", id_,
                                     job_.state.empty() ? "unknown" : job_.state,
                                     job_.exit_code.empty() ? "?" : job_.exit_code, problem);
    if (job_.state == "COMPLETED")
      reason += "; the folder of trials must be on a file system of all nodes: see XDG_STATE_HOME";
    if (const std::string said = last_words(folder_ + "/stderr"); !said.empty())
      reason += "; it said: " + said;
    return {OutcomeStatus::crashed, reason + "; see " + folder_, false};
  }

 private:
  // Short trials are looked at often, long ones seldom.
  double pause_seconds() const {
    return std::clamp(seconds_since(submitted_) / 20, kShortestLook, kLongestLook);
  }

  // What cannot be learnt now is asked again later: a controller may be away for a while.
  void look() {
    const CommandEnd end = run({"scontrol", "-o", "show", "job", id_}, folder_);
    looked_ = Clock::now();
    if (end.code == 0)
      job_ = parse_scontrol(end.output);
    else if (end.errors.find("Invalid job id") != std::string::npos)
      job_ = {};
  }

  void cancel() {
    run({"scancel", id_}, folder_);
    guard_.dismiss();
  }

  void finish() {
    done_ = true;
    guard_.dismiss();
    // A network file system may show the node's last files a little later.
    constexpr double kLate = 3;
    const auto start = Clock::now();
    while (!std::filesystem::exists(folder_ + "/outcome.json") && job_.state == "COMPLETED" &&
           seconds_since(start) < kLate)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  SlurmOptions options_;
  std::string folder_;
  CancelGuard guard_;
  std::string id_;
  SlurmJob job_;
  std::optional<Failure> failure_;  // of the submission, or of waiting
  bool done_ = false;
  Clock::time_point submitted_, looked_;
};

}  // namespace

bool SlurmJob::is_waiting() const {
  for (const char* waiting : {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                              "RESV_DEL_HOLD", "SPECIAL_EXIT"})
    if (state == waiting) return true;
  return false;
}

bool SlurmJob::has_ended() const {
  if (state.empty()) return true;
  for (const char* under_way :
       {"RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"})
    if (state == under_way) return false;
  return !is_waiting();
}

SlurmJob parse_scontrol(std::string_view line) {
  const auto value = [&](std::string_view key) -> std::string {
    // A key begins a word: "Reason=" also ends other keys.
    const std::string field = fmt::format(" {}=", key);
    const size_t at = line.find(field);
    if (at == std::string_view::npos) return {};
    const size_t from = at + field.size();
    return std::string(line.substr(from, line.find_first_of(" \n", from) - from));
  };
  return {value("JobState"), value("Reason"), value("NodeList"), value("ExitCode")};
}

std::vector<std::string> sbatch_command(const SlurmOptions& options, int ranks,
                                        const std::string& worker, const std::string& job_path,
                                        double deadline_seconds) {
  const std::string folder = std::filesystem::path(job_path).parent_path();
  const int per_node = std::clamp(options.ranks_per_node, 1, ranks);
  const double limit = options.time_seconds > 0 ? options.time_seconds : deadline_seconds + 60;
  std::vector<std::string> words = {
      "sbatch",
      "--parsable",
      "--no-requeue",
      "--job-name=" + name_of_job(folder),
      fmt::format("--ntasks={}", ranks),
      fmt::format("--nodes={}", (ranks + per_node - 1) / per_node),
      fmt::format("--ntasks-per-node={}", per_node),
      fmt::format("--time={}", static_cast<int64_t>(std::ceil(limit / 60)))};
  if (!folder.empty()) words.push_back("--chdir=" + folder);
  words.insert(words.end(), {"--output=stdout", "--error=stderr"});
  if (!options.partition.empty()) words.push_back("--partition=" + options.partition);
  if (!options.account.empty()) words.push_back("--account=" + options.account);
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  words.push_back("--wrap=exec srun --mpi=pmix " + quoted(worker) + " " + quoted(job_path));
  return words;
}

std::unique_ptr<Execution> start_slurm(const SlurmOptions& options,
                                       const std::vector<std::string>& command,
                                       const std::string& folder) {
  return std::make_unique<SlurmExecution>(options, command, folder);
}

}  // namespace tuner
