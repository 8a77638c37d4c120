// A thin owner of an SQLite connection; the only file that knows SQLite.
#include "tuner/store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <thread>

#include "engine/base/errors.h"
#include "tuner/store/store.h"

namespace tuner {
namespace {

std::string advice(int status, const std::string& path) {
  const int kind = status & 0xFF;
  if (kind == SQLITE_READONLY || kind == SQLITE_PERM || kind == SQLITE_AUTH)
    return fmt::format(
        "the database '{}' cannot be written: the file or its folder is read-only; "
        "make it writable or give another file with --db",
        path);
  if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED)
    return fmt::format(
        "the database '{}' is locked by another process; try again when that one "
        "has ended",
        path);
  if (kind == SQLITE_FULL || status == SQLITE_IOERR_WRITE || status == SQLITE_IOERR_FSYNC ||
      status == SQLITE_IOERR_TRUNCATE || status == SQLITE_IOERR_SHMSIZE)
    return fmt::format(
        "the database '{}' cannot grow: the disk is full or a file size limit is "
        "reached; free some space and run again (what was stored before is safe)",
        path);
  if (kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || status == SQLITE_IOERR_SHORT_READ)
    return fmt::format(
        "the file '{}' is damaged or is no database; it is left as it is: move it "
        "away or give another file with --db",
        path);
  if (kind == SQLITE_CANTOPEN)
    return fmt::format(
        "the database '{}' cannot be opened: check that its folder exists and that "
        "you may read and write there, or give another file with --db",
        path);
  return {};
}

[[noreturn]] void fail(sqlite3* connection, int status, const std::string& path) {
  // An ordinary SQL error or a broken constraint is our own mistake.
  const std::string detail = connection != nullptr ? sqlite3_errmsg(connection) : "out of memory";
  const int kind = status & 0xFF;
  engine::expect(kind != SQLITE_ERROR && kind != SQLITE_CONSTRAINT && kind != SQLITE_MISUSE &&
                     kind != SQLITE_RANGE && kind != SQLITE_MISMATCH,
                 "an SQL statement that works, got: " + detail);
  std::string message = advice(status, path);
  if (message.empty())
    message = fmt::format(
        "the database '{}' failed: {}; check the disk or give another file with "
        "--db",
        path, detail);
  throw engine::Error(engine::ExitCode::storage, message);
}

}  // namespace

std::string sqlite_version() { return sqlite3_libversion(); }

Statement::Statement(sqlite3* connection, const std::string& path, std::string_view sql)
    : connection_(connection), path_(path) {
  check(sqlite3_prepare_v2(connection_, sql.data(), static_cast<int>(sql.size()), &statement_,
                           nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::check(int status) const {
  if (status != SQLITE_OK) fail(connection_, sqlite3_extended_errcode(connection_), path_);
}

Statement& Statement::bind(int parameter, int64_t value) {
  check(sqlite3_bind_int64(statement_, parameter, value));
  return *this;
}
Statement& Statement::bind(int parameter, double value) {
  check(sqlite3_bind_double(statement_, parameter, value));
  return *this;
}
Statement& Statement::bind(int parameter, std::string_view value) {
  check(sqlite3_bind_text64(statement_, parameter, value.data(), value.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
  return *this;
}

bool Statement::step() {
  const int status = sqlite3_step(statement_);
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) fail(connection_, sqlite3_extended_errcode(connection_), path_);
  return false;
}

void Statement::run() {
  while (step()) {}
  check(sqlite3_reset(statement_));
}

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::number(int column) const { return sqlite3_column_double(statement_, column); }
std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text == nullptr
             ? std::string()
             : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}
Database::Database(const std::string& path, std::chrono::milliseconds patience)
    : path_(path), patience_(patience) {
  const int status = sqlite3_open_v2(path.c_str(), &connection_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  try {
    if (status != SQLITE_OK)
      fail(connection_, connection_ != nullptr ? sqlite3_extended_errcode(connection_) : status,
           path_);
    sqlite3_busy_timeout(connection_, static_cast<int>(patience.count()));
    // Every commit reaches the disk: a power cut loses at most the transaction in flight.
    execute("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
  } catch (...) {
    sqlite3_close(connection_);
    throw;
  }
}

Database::~Database() { sqlite3_close(connection_); }

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    fail(connection_, sqlite3_extended_errcode(connection_), path_);
}

int64_t Database::scalar(std::string_view sql) const {
  Statement statement = prepare(sql);
  return statement.step() ? statement.integer(0) : 0;
}

void Database::use_write_ahead_log() {
  // SQLite does not wait for others when it changes the journal mode, so we do.
  const auto deadline = std::chrono::steady_clock::now() + patience_;
  while (true) {
    Statement statement = prepare("PRAGMA journal_mode = WAL");
    try {
      statement.step();
      return;
    } catch (const engine::Error&) {
      const int kind = sqlite3_errcode(connection_);
      if (kind != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(connection_); }
int64_t Database::changed_rows() const { return sqlite3_changes(connection_); }

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const std::exception&) {
    // SQLite has rolled back by itself, as it does when the disk is full; the first error is
    // thrown.
    open_ = false;
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

}  // namespace tuner
