// Notes signals that ask the program to stop.
#include "tuner/cli/stop_signals.h"

#include <csignal>

namespace tuner {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> signal_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
  signal_seen = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  signal_seen = 0;
  for (const int signal : kSignals) std::signal(signal, note);
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

const std::atomic<int>& StopSignals::seen() const { return signal_seen; }

}  // namespace tuner
