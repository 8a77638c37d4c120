// Writes progress to standard error.
#include "tuner/cli/progress.h"

#include <unistd.h>

#include "tuner/cli/output.h"

namespace tuner {
namespace {

constexpr auto kPause = std::chrono::seconds(3);  // between plain lines

}  // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && shown_) print_message("\r\033[K");
}

void ProgressLine::tell(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (terminal_)
    print_message("\r\033[K" + text);
  else if (!shown_ || now - last_ >= kPause)
    print_message(text + "\n");
  else
    return;
  shown_ = true;
  last_ = now;
}

}  // namespace tuner
