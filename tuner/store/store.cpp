// Store: runs, trials and measurements.
#include "tuner/store/store.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "engine/base/errors.h"
#include "tuner/store/schema.h"

namespace tuner {
namespace {

constexpr const char* kRunColumns =
    "id, created_at, command_line, kind, model, gpu, gpus, title, status, tool_version";

constexpr const char* kTrialColumns =
    "t.id, t.run_id, t.plan_hash, t.environment, t.job, o.status, o.reason, o.outcome "
    "FROM trials t LEFT JOIN outcomes o ON o.trial_id = t.id";

// The path to open: the folder made, or a private empty database for a reader without a file.
std::string prepared_path(const std::string& path, Access access) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (path.empty())
    throw engine::InputError("the path of the database is empty; give a file with --db");
  if (fs::is_directory(path, error))
    throw engine::Error(engine::ExitCode::storage,
                        fmt::format("the database '{}' is a folder; give a file with --db", path));
  if (access == Access::read) return fs::exists(path, error) ? path : ":memory:";
  const fs::path folder = fs::path(path).parent_path();
  error.clear();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw engine::Error(engine::ExitCode::storage,
                        fmt::format("the folder '{}' of the database cannot be made ({}); give "
                                    "another file with --db",
                                    folder.string(), error.message()));
  return path;
}

void read_summary(const Statement& row, RunSummary& run) {
  run.id = row.integer(0);
  run.created_at = row.text(1);
  run.command_line = row.text(2);
  run.kind = row.text(3);
  run.model = row.text(4);
  run.gpu = row.text(5);
  run.gpus = row.integer(6);
  run.title = row.text(7);
  run.status = row.text(8);
  run.tool_version = row.text(9);
}

RunRecord read_run(const Statement& row) {
  RunRecord run;
  read_summary(row, run);
  run.answer = row.text(10);
  return run;
}

std::vector<TrialRecord> read_trials(Statement& rows) {
  std::vector<TrialRecord> trials;
  while (rows.step())
    trials.push_back({.id = rows.integer(0),
                      .run_id = rows.integer(1),
                      .plan_hash = rows.text(2),
                      .environment = rows.text(3),
                      .job = rows.text(4),
                      .status = rows.text(5),
                      .reason = rows.text(6),
                      .outcome = rows.text(7)});
  return trials;
}

}  // namespace

Store::Store(const std::string& path, Access access, std::chrono::milliseconds patience)
    : database_(prepared_path(path, access), patience) {
  migrate(database_);
  if (access == Access::write) database_.use_write_ahead_log();
}

int64_t Store::add_run(const RunRecord& run) {
  database_
      .prepare(
          "INSERT INTO runs (command_line, kind, model, gpu, gpus, title, status, "
          "tool_version, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
      .bind(1, run.command_line)
      .bind(2, run.kind)
      .bind(3, run.model)
      .bind(4, run.gpu)
      .bind(5, run.gpus)
      .bind(6, run.title)
      .bind(7, run.status)
      .bind(8, run.tool_version)
      .bind(9, run.answer)
      .run();
  return database_.last_insert_id();
}

void Store::finish_run(int64_t id, const std::string& title, const std::string& status,
                       const std::string& answer) {
  database_.prepare("UPDATE runs SET title = ?2, status = ?3, answer = ?4 WHERE id = ?1")
      .bind(1, id)
      .bind(2, title)
      .bind(3, status)
      .bind(4, answer)
      .run();
}

RunRecord Store::run(int64_t id) const {
  Statement row =
      database_.prepare(fmt::format("SELECT {}, answer FROM runs WHERE id = ?1", kRunColumns));
  row.bind(1, id);
  if (!row.step())
    throw engine::InputError(
        fmt::format("there is no run {}; `autotune runs` lists those that are stored", id));
  return read_run(row);
}

std::optional<RunRecord> Store::last_run() const {
  Statement row = database_.prepare(fmt::format(
      "SELECT {}, answer FROM runs WHERE answer <> '' ORDER BY id DESC LIMIT 1", kRunColumns));
  if (!row.step()) return std::nullopt;
  return read_run(row);
}

std::vector<RunSummary> Store::runs(const RunFilter& filter) const {
  Statement rows =
      database_.prepare(fmt::format("SELECT {} FROM runs WHERE instr(lower(model), lower(?1)) > 0 "
                                    "AND instr(lower(gpu), lower(?2)) > 0 AND created_at >= ?3 "
                                    "ORDER BY id DESC LIMIT ?4",
                                    kRunColumns));
  rows.bind(1, filter.model).bind(2, filter.gpu).bind(3, filter.since);
  rows.bind(4, filter.limit > 0 ? filter.limit : int64_t{-1});
  std::vector<RunSummary> runs;
  while (rows.step()) read_summary(rows, runs.emplace_back());
  return runs;
}

void Store::delete_runs(const std::vector<int64_t>& ids) {
  Transaction transaction(database_);
  Statement statement = database_.prepare("DELETE FROM runs WHERE id = ?1");
  std::vector<std::string> missing;
  for (const int64_t id : ids) {
    statement.bind(1, id).run();
    if (database_.changed_rows() == 0)
      missing.push_back(fmt::format("there is no run {}; nothing was deleted", id));
  }
  if (!missing.empty()) throw engine::InputError(missing);
  transaction.commit();
}

void Store::add_environment(const std::string& hash, const std::string& fingerprint) {
  database_.prepare("INSERT OR IGNORE INTO environments (hash, fingerprint) VALUES (?1, ?2)")
      .bind(1, hash)
      .bind(2, fingerprint)
      .run();
}

std::string Store::environment(const std::string& hash) const {
  Statement row = database_.prepare("SELECT fingerprint FROM environments WHERE hash = ?1");
  row.bind(1, hash);
  return row.step() ? row.text(0) : std::string();
}

int64_t Store::add_trial(const TrialRecord& trial) {
  database_
      .prepare(
          "INSERT INTO trials (run_id, environment, plan_hash, job) "
          "VALUES (nullif(?1, 0), ?2, ?3, ?4)")
      .bind(1, trial.run_id)
      .bind(2, trial.environment)
      .bind(3, trial.plan_hash)
      .bind(4, trial.job)
      .run();
  return database_.last_insert_id();
}

void Store::add_samples(int64_t trial, const std::vector<SampleRecord>& samples) {
  Transaction transaction(database_);
  Statement statement =
      database_.prepare("INSERT INTO samples (trial_id, step, seconds) VALUES (?1, ?2, ?3)");
  for (const SampleRecord& sample : samples)
    statement.bind(1, trial).bind(2, sample.step).bind(3, sample.seconds).run();
  transaction.commit();
}

void Store::add_outcome(int64_t trial, const std::string& status, const std::string& reason,
                        const std::string& outcome) {
  database_
      .prepare("INSERT INTO outcomes (trial_id, status, reason, outcome) VALUES (?1, ?2, ?3, ?4)")
      .bind(1, trial)
      .bind(2, status)
      .bind(3, reason)
      .bind(4, outcome)
      .run();
}

std::optional<TrialRecord> Store::trial(int64_t id) const {
  Statement rows = database_.prepare(fmt::format("SELECT {} WHERE t.id = ?1", kTrialColumns));
  rows.bind(1, id);
  std::vector<TrialRecord> found = read_trials(rows);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

std::vector<TrialRecord> Store::trials(int64_t run) const {
  Statement rows =
      database_.prepare(fmt::format("SELECT {} WHERE t.run_id = ?1 ORDER BY t.id", kTrialColumns));
  rows.bind(1, run);
  return read_trials(rows);
}

std::vector<TrialRecord> Store::finished_trials(const std::string& plan_hash,
                                                const std::string& environment) const {
  Statement rows = database_.prepare(fmt::format(
      "SELECT {} WHERE t.plan_hash = ?1 AND t.environment = ?2 AND o.status IS NOT NULL "
      "ORDER BY t.id",
      kTrialColumns));
  rows.bind(1, plan_hash).bind(2, environment);
  return read_trials(rows);
}

std::vector<SampleRecord> Store::samples(int64_t trial) const {
  Statement rows =
      database_.prepare("SELECT step, seconds FROM samples WHERE trial_id = ?1 ORDER BY step");
  rows.bind(1, trial);
  std::vector<SampleRecord> samples;
  while (rows.step()) samples.push_back({rows.integer(0), rows.number(1)});
  return samples;
}

std::string default_store_path() {
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  // The XDG rules tell to ignore a relative path.
  if (const std::string data = set("XDG_DATA_HOME"); data.starts_with('/'))
    return data + "/autotune/autotune.db";
  if (const std::string home = set("HOME"); !home.empty())
    return home + "/.local/share/autotune/autotune.db";
  throw engine::Error(engine::ExitCode::storage,
                      "there is no place for the database: neither XDG_DATA_HOME nor HOME is set; "
                      "set one or give a file with --db");
}

}  // namespace tuner
