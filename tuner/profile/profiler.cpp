// Trials: run, stored, recalled and put together.
#include "tuner/profile/profiler.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/json_reader.h"
#include "tuner/profile/statistics.h"

namespace tuner {

using engine::Outcome;
using engine::OutcomeStatus;

namespace {

// What a repetition would only repeat.
bool is_final(OutcomeStatus status) {
  return status == OutcomeStatus::out_of_memory || status == OutcomeStatus::bad_numbers;
}

std::string new_folder(int64_t trial) {
  const std::string parent = trials_folder();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  std::string name = fmt::format("{}/{}-XXXXXX", parent, trial);
  if (mkdtemp(name.data()) == nullptr)
    throw engine::Error(engine::ExitCode::storage,
                        fmt::format("a folder for trials cannot be made below {}: {}; set "
                                    "XDG_STATE_HOME to a place that can be written",
                                    parent, std::strerror(errno)));
  return name;
}

Outcome stored_outcome(const TrialRecord& trial) {
  const std::string source = fmt::format("the stored outcome of trial {}", trial.id);
  return engine::outcome_from_json(engine::parse_json(trial.outcome, source), source);
}

// Adds what one more trial found.
void add(Measurement& measurement, const Outcome& outcome) {
  const bool timed =
      outcome.status == OutcomeStatus::ok ||
      (outcome.status == OutcomeStatus::interrupted && !outcome.samples_seconds.empty());
  if (timed)
    measurement.samples.insert(measurement.samples.end(), outcome.samples_seconds.begin(),
                               outcome.samples_seconds.end());
  // A complete trial is worth more than a later one that was cut off.
  const bool known = measurement.outcome.measured;
  if (!known || outcome.status == OutcomeStatus::ok ||
      measurement.outcome.status != OutcomeStatus::ok)
    measurement.outcome = outcome;
}

// Gives the outcome the times of all samples.
void summarize(Measurement& measurement) {
  Outcome& outcome = measurement.outcome;
  if (measurement.samples.empty()) return;
  const SampleSummary summary = summarize_samples(measurement.samples);
  if (outcome.step_seconds > 0) {
    outcome.tokens_per_second_per_gpu *= outcome.step_seconds / summary.median;
    outcome.tflops_per_gpu *= outcome.step_seconds / summary.median;
  }
  outcome.step_seconds = summary.median;
  outcome.interval_seconds = summary.interval;
  outcome.samples_seconds = measurement.samples;
}

}  // namespace

std::string hash_of(const engine::Job& job) {
  engine::Job same = job;
  same.model.name.clear();
  same.steps = 0;
  same.events_path.clear();
  same.outcome_path.clear();
  return hash_text(engine::job_to_json(same).dump());
}

Fingerprint environment_of(const Host& host, const Launcher& launcher) {
  return take_fingerprint(host, launcher.worker, launcher.description());
}

std::string trials_folder() {
  const auto absolute = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  if (const std::string state = absolute("XDG_STATE_HOME"); !state.empty())
    return state + "/autotune/trials";
  if (const std::string home = absolute("HOME"); !home.empty())
    return home + "/.local/state/autotune/trials";
  throw engine::Error(engine::ExitCode::storage,
                      "there is no place for the files of trials: neither XDG_STATE_HOME nor HOME "
                      "is set; set one");
}

Profiler::Profiler(Store& store, int64_t run, Launcher launcher, const Host& host)
    : store_(store),
      run_(run),
      launcher_(std::move(launcher)),
      fingerprint_(environment_of(host, launcher_)) {
  store_.add_environment(fingerprint_.hash, fingerprint_.text);
}

Measurement Profiler::recall(const std::string& hash) const {
  Measurement measurement;
  for (const TrialRecord& trial : store_.finished_trials(hash, fingerprint_.hash)) {
    const Outcome outcome = stored_outcome(trial);
    const bool useful =
        outcome.status == OutcomeStatus::ok || is_final(outcome.status) ||
        (outcome.status == OutcomeStatus::interrupted && !outcome.samples_seconds.empty());
    if (!useful) continue;
    add(measurement, outcome);
    measurement.trials.push_back(trial.id);
  }
  return measurement;
}

struct Profiler::Trial {
  TrialRequest request;
  std::string hash;
  Measurement measurement;
  bool is_needed = false;  // what is stored does not do
  int64_t id = 0;          // in the store
  std::future<TrialEnd> end;
};

Profiler::Trial Profiler::prepare(TrialRequest request, int64_t samples) const {
  Trial trial;
  trial.hash = hash_of(request.job);
  Measurement& measurement = trial.measurement = recall(trial.hash);
  summarize(measurement);
  const Outcome& outcome = measurement.outcome;
  const double hopeless = request.limits.hopeless_seconds;
  const bool lost = hopeless > 0 && outcome.measured && outcome.step_seconds > hopeless;
  const auto known = static_cast<int64_t>(measurement.samples.size());
  const bool enough = outcome.status == OutcomeStatus::ok && known >= samples;
  trial.is_needed = !outcome.measured || (!is_final(outcome.status) && !lost && !enough);
  request.job.steps = request.job.warmup_steps + std::max<int64_t>(1, samples - known);
  trial.request = std::move(request);
  return trial;
}

void Profiler::start(Trial& trial, bool alone) {
  TrialRecord record;
  record.run_id = run_;
  record.plan_hash = trial.hash;
  record.environment = fingerprint_.hash;
  record.job = engine::job_to_json(trial.request.job).dump();
  trial.id = store_.add_trial(record);
  trial.end = std::async(alone ? std::launch::deferred : std::launch::async,
                         [this, &request = trial.request, folder = new_folder(trial.id)] {
                           return run_trial(launcher_, request.job, folder, request.limits);
                         });
}

// Waits for the end and stores it; starts again what died by chance, once.
void Profiler::finish(Trial& trial) {
  Measurement& measurement = trial.measurement;
  for (int tries = 1;; ++tries) {
    const TrialEnd end = trial.end.get();
    std::vector<SampleRecord> samples;
    for (size_t i = 0; i < end.samples.size(); ++i)
      samples.push_back({trial.request.job.warmup_steps + static_cast<int64_t>(i), end.samples[i]});
    store_.add_samples(trial.id, samples);
    store_.add_outcome(trial.id, std::string(name_of(end.outcome.status)), end.outcome.reason,
                       engine::outcome_to_json(end.outcome).dump());
    measurement.trials.push_back(trial.id);
    ++measurement.new_trials;
    measurement.spent_seconds += end.wall_seconds;
    if (!end.by_chance || tries > 1) {
      add(measurement, end.outcome);
      return summarize(measurement);
    }
    start(trial, true);
  }
}

Measurement Profiler::measure(engine::Job job, int64_t samples, const TrialLimits& limits) {
  return measure_together({{std::move(job), limits}}, samples).front();
}

std::vector<Measurement> Profiler::measure_together(std::vector<TrialRequest> requests,
                                                    int64_t samples) {
  const bool alone = requests.size() == 1;
  std::vector<Trial> trials;  // which keep their places
  for (TrialRequest& request : requests) trials.push_back(prepare(std::move(request), samples));
  for (Trial& trial : trials)
    if (trial.is_needed) start(trial, alone);
  std::vector<Measurement> measurements;
  for (Trial& trial : trials) {
    if (trial.is_needed) finish(trial);
    measurements.push_back(std::move(trial.measurement));
  }
  return measurements;
}

}  // namespace tuner
