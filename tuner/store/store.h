// Store: runs, trials and measurements in one SQLite file.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/store/database.h"

namespace tuner {

// One run of a command that answers.
struct RunSummary {
  int64_t id = 0;          // given by the store
  std::string created_at;  // given by the store; UTC, "2030-01-31T12:00:00Z"
  std::string command_line;
  std::string kind;  // "train"
  std::string model;
  std::string gpu;
  int64_t gpus = 0;
  std::string title;   // the answer in one line
  std::string status;  // "found", "nothing fits", …
  std::string tool_version;
};

struct RunRecord : RunSummary {
  std::string answer;  // JSON text
};

// Which runs to list; an empty member restricts nothing.
struct RunFilter {
  std::string model = {};  // part of the name, in any case
  std::string gpu = {};    // part of the name, in any case
  std::string since = {};  // UTC, "2030-01-31" or longer
  int64_t limit = 0;       // the newest N
};

// One trial of a plan: what was to be run, and how it ended.
struct TrialRecord {
  int64_t id = 0;                // given by the store
  int64_t run_id = 0;            // 0 = its run was deleted
  std::string plan_hash = {};    // equal plans have equal hashes
  std::string environment = {};  // hash of the environment's fingerprint
  std::string job = {};          // JSON text
  std::string status = {};       // of its outcome; empty while there is none
  std::string reason = {};       // why the status is not ok
  std::string outcome = {};      // JSON text
};

struct SampleRecord {
  int64_t step = 0;
  double seconds = 0;
};

enum class Access : uint8_t {
  read,   // a file that does not exist reads as an empty store and is not made
  write,  // makes the file and its folder
};

// The file of runs. Measurements (samples, outcomes) are only ever added. Each call is one
// transaction: it is stored when the call returns, or not at all. Trouble with the file is an
// engine::Error with ExitCode::storage. Not for use by several threads at once; several stores on
// one file are.
class Store {
 public:
  explicit Store(const std::string& path, Access access = Access::write,
                 std::chrono::milliseconds patience = std::chrono::seconds(5));

  int64_t add_run(const RunRecord& run);  // returns its id
  // Writes title, status and answer of a run that was added before it ended.
  void finish_run(int64_t id, const std::string& title, const std::string& status,
                  const std::string& answer);
  RunRecord run(int64_t id) const;  // throws InputError when there is none
  // The newest one with an answer.
  std::optional<RunRecord> last_run() const;
  std::vector<RunSummary> runs(const RunFilter& filter = {}) const;  // newest first
  // All of them, or none when one does not exist (InputError names those). Their trials stay:
  // measurements serve later runs.
  void delete_runs(const std::vector<int64_t>& ids);

  // Keeps the fingerprint (JSON text) under its hash; known hashes are left as they are.
  void add_environment(const std::string& hash, const std::string& fingerprint);
  std::string environment(const std::string& hash) const;  // empty when unknown
  // Stores a trial that begins; `environment` must have been added. Returns its id.
  int64_t add_trial(const TrialRecord& trial);
  void add_samples(int64_t trial, const std::vector<SampleRecord>& samples);
  // Ends a trial; once only.
  void add_outcome(int64_t trial, const std::string& status, const std::string& reason,
                   const std::string& outcome);
  std::optional<TrialRecord> trial(int64_t id) const;
  std::vector<TrialRecord> trials(int64_t run) const;  // in the order they began
  // Trials of an equal plan in an equal environment that have an outcome, of any run.
  std::vector<TrialRecord> finished_trials(const std::string& plan_hash,
                                           const std::string& environment) const;
  std::vector<SampleRecord> samples(int64_t trial) const;

 private:
  Database database_;
};

// $XDG_DATA_HOME/autotune/autotune.db, or below ~/.local/share.
std::string default_store_path();

std::string sqlite_version();

}  // namespace tuner
