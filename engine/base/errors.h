// The project's error types: bad input, trouble with the environment, and our own mistakes.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

// Exit codes of every executable of the project; the table stands in `autotune --help`.
enum class ExitCode : int {
  found = 0,
  internal = 1,
  usage = 2,
  nothing_fits = 3,
  target_missed = 4,
  partial = 5,
  storage = 6,
  environment = 7,
  out_of_time = 124,
  interrupted = 130,
  terminated = 143,
};

// An error with the exit code the program ends with when nobody handles it.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Bad input by the user: every problem at once, each one sentence that says what to do.
class InputError : public Error {
 public:
  explicit InputError(std::vector<std::string> problems);
  explicit InputError(std::string problem) : InputError(std::vector{std::move(problem)}) {}
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<std::string> problems_;
};

// A place in the code: std::source_location, which clang-tidy's parser lacks with GCC 12's library.
struct Place {
  const char* file;
  int line;
  const char* function;
  static constexpr Place current(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                                 const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

// Throws std::logic_error with the place: for our own mistakes, in release builds too.
[[noreturn]] void fail_expectation(std::string_view what, const Place& where = Place::current());
inline void expect(bool holds, std::string_view what, const Place& where = Place::current()) {
  if (!holds) fail_expectation(what, where);
}

// The candidates nearest to `word` by edit distance, nearest first, at most three; empty when none
// is near. Case and the separators - _ . are ignored.
std::vector<std::string> did_you_mean(std::string_view word,
                                      const std::vector<std::string>& candidates);

// "unknown KIND 'WORD'; did you mean A or B?", or the sentence with `hint` when nothing is near.
std::string unknown_name(std::string_view kind, std::string_view word,
                         const std::vector<std::string>& candidates, std::string_view hint);

}  // namespace engine
