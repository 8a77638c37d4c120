// Progress: one line on standard error that tells how far a long command is.
#pragma once
#include <chrono>
#include <string>

namespace tuner {

// On a terminal the line is rewritten in place; elsewhere a plain line appears every few seconds.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // leaves the terminal at the start of an empty line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void tell(const std::string& text);

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tuner
