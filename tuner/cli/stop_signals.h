// StopSignals: Ctrl-C and its kin set a number instead of ending the program.
#pragma once
#include <atomic>

namespace tuner {

// While one exists, SIGINT, SIGTERM and SIGHUP are noted; a second SIGINT or SIGTERM ends the
// program at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  // 0 until a signal came, then its number.
  const std::atomic<int>& seen() const;
};

}  // namespace tuner
