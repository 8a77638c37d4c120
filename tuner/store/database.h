// A thin owner of an SQLite connection and its statements; every trouble becomes a clear error.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace tuner {

// A prepared statement. Parameters are numbered from 1 (?1), columns from 0, as in SQLite.
class Statement {
 public:
  Statement(sqlite3* connection, const std::string& path, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, std::string_view value);
  // Goes to the next row; false at the end.
  bool step();
  // Runs a statement that yields no rows, and makes it ready for the next values.
  void run();

  int64_t integer(int column) const;
  double number(int column) const;
  std::string text(int column) const;

 private:
  void check(int status) const;

  sqlite3* connection_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
};

// One connection to one file. Errors are engine::Error with ExitCode::storage and one sentence that
// says what to do.
class Database {
 public:
  // Opens or creates `path` (":memory:" = a private one that is never written). Waits at most
  // `patience` for other processes.
  Database(const std::string& path, std::chrono::milliseconds patience);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Statement prepare(std::string_view sql) const { return {connection_, path_, sql}; }
  // Runs SQL text without parameters: one or more statements.
  void execute(const std::string& sql);
  int64_t scalar(std::string_view sql) const;  // the integer in the first column of the first row
  void use_write_ahead_log();
  int64_t last_insert_id() const;
  int64_t changed_rows() const;  // by the last statement
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::chrono::milliseconds patience_;
  sqlite3* connection_ = nullptr;
};

// Begins a write transaction at once; rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database_.execute("BEGIN IMMEDIATE");
  }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace tuner
