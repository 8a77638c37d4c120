// The tables of the store.
#include "tuner/store/schema.h"

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace tuner {
namespace {

// Marks the file as ours in its header: "ATUN".
constexpr int64_t kApplicationId = 0x4154554E;

// Step i leads from version i to i + 1. A published step is never changed; a new one is added.
constexpr const char* kSteps[] = {R"sql(
CREATE TABLE runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  command_line TEXT NOT NULL,
  kind TEXT NOT NULL,
  model TEXT NOT NULL,
  gpu TEXT NOT NULL,
  gpus INTEGER NOT NULL,
  title TEXT NOT NULL,
  status TEXT NOT NULL,
  tool_version TEXT NOT NULL,
  answer TEXT NOT NULL
);
CREATE TABLE environments (
  hash TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE trials (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER REFERENCES runs (id) ON DELETE SET NULL,
  environment TEXT NOT NULL REFERENCES environments (hash),
  plan_hash TEXT NOT NULL,
  job TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
CREATE INDEX trials_by_run ON trials (run_id);
CREATE INDEX trials_by_plan ON trials (plan_hash, environment);
CREATE TABLE samples (
  trial_id INTEGER NOT NULL REFERENCES trials (id),
  step INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (trial_id, step)
) WITHOUT ROWID;
CREATE TABLE outcomes (
  trial_id INTEGER PRIMARY KEY REFERENCES trials (id),
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  outcome TEXT NOT NULL,
  created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
CREATE TRIGGER samples_stay BEFORE DELETE ON samples
  BEGIN SELECT RAISE(ABORT, 'measurements are never deleted'); END;
CREATE TRIGGER samples_are_final BEFORE UPDATE ON samples
  BEGIN SELECT RAISE(ABORT, 'measurements are never changed'); END;
CREATE TRIGGER outcomes_stay BEFORE DELETE ON outcomes
  BEGIN SELECT RAISE(ABORT, 'measurements are never deleted'); END;
CREATE TRIGGER outcomes_are_final BEFORE UPDATE ON outcomes
  BEGIN SELECT RAISE(ABORT, 'measurements are never changed'); END;
)sql"};

int64_t stored_version(const Database& database) {
  // The owner last: another process may write the first tables meanwhile, with all of this at once.
  const int64_t tables = database.scalar("SELECT count(*) FROM sqlite_schema");
  const int64_t version = database.scalar("PRAGMA user_version");
  const int64_t owner = database.scalar("PRAGMA application_id");
  const bool empty = tables == 0 && version == 0 && owner == 0;
  if (!empty && owner != kApplicationId)
    throw engine::Error(engine::ExitCode::storage,
                        fmt::format("the database '{}' belongs to another program; it is left as "
                                    "it is: give another file with --db",
                                    database.path()));
  if (version > schema_version())
    throw engine::Error(
        engine::ExitCode::storage,
        fmt::format(
            "the database '{}' was written by a newer autotune (its format is {}, ours {}); "
            "update autotune or give another file with --db",
            database.path(), version, schema_version()));
  return version;
}

}  // namespace

int64_t schema_version() { return std::size(kSteps); }

void migrate(Database& database) {
  if (stored_version(database) == schema_version()) return;
  Transaction transaction(database);
  // Asked again: another process may have migrated while we waited.
  for (int64_t version = stored_version(database); version < schema_version(); ++version)
    database.execute(kSteps[version]);
  database.execute(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}",
                               schema_version(), kApplicationId));
  transaction.commit();
}

}  // namespace tuner
