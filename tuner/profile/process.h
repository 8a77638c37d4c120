// Process: a child in a process group of its own, which never outlives this program.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace tuner {

class Process {
 public:
  // Starts words[0] (looked up in PATH) with nothing to read and its output in two files. When it
  // cannot be started, `start_error` says why and the process counts as ended.
  Process(const std::vector<std::string>& words, const std::string& output,
          const std::string& errors);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // ends the whole group

  const std::string& start_error() const { return start_error_; }
  bool has_ended();  // does not wait
  // Asks the group to end (SIGUSR1), waits up to `grace_seconds` for the child, then kills the
  // group.
  void end(double grace_seconds);
  // After the end: the exit code, or -1 when a signal ended it.
  int exit_code() const;
  int signal() const;  // 0 when none ended it

 private:
  void signal_group(int signal) const;
  bool ends_within(double seconds);
  pid_t child_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::string start_error_;
};

}  // namespace tuner
