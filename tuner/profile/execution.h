// Execution: one trial under way, whatever started it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/outcome.h"

namespace tuner {

// How a trial failed that left no usable Outcome, or whose Outcome does not tell the whole.
struct Failure {
  engine::OutcomeStatus status = engine::OutcomeStatus::crashed;
  std::string reason;
  bool by_chance = false;  // a repetition may well succeed
};

class Execution {
 public:
  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  virtual ~Execution() = default;  // ends what is left of it

  virtual bool has_ended() = 0;  // looks, does not wait
  // Whether it stands in a queue: that time is nobody's cost.
  virtual bool is_waiting() const { return false; }
  // Asks it to end and waits up to `grace_seconds` for that.
  virtual void end(double grace_seconds) = 0;
  // Behind the end: what decides even over an Outcome that says something else than ok.
  virtual std::optional<Failure> failure() const { return std::nullopt; }
  // Behind the end: the worker's; -1 when a signal ended it, or nobody knows.
  virtual int exit_code() const = 0;
  // Behind the end, when there is no usable Outcome; `problem` says what is wrong with it.
  virtual Failure without_outcome(const std::string& problem) const = 0;
};

// The last 400 characters of a file on one line; empty when there are none.
std::string last_words(const std::string& path);

}  // namespace tuner
