// CancelGuard: runs a command should this program be killed before it could do so itself.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace tuner {

// A shell in a session of its own that waits for a word from this program. When the program is gone
// without one, it runs `command`, and once more a little later for what was just on its way.
class CancelGuard {
 public:
  explicit CancelGuard(const std::vector<std::string>& command);
  CancelGuard(const CancelGuard&) = delete;
  CancelGuard& operator=(const CancelGuard&) = delete;
  ~CancelGuard() { dismiss(); }
  void dismiss();  // nothing is left to cancel

 private:
  pid_t shell_ = -1;
  int word_ = -1;  // end of a pipe
};

}  // namespace tuner
