// The worker programs: each runs one job of the built-in engine, or prepares data.
#include <malloc.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "engine/data/tokenize.h"
#include "engine/worker/worker.h"

namespace {

std::atomic<bool> stop_asked{false};
std::atomic<int> signal_seen{0};

// SIGUSR1 is the one that mpirun and srun hand on to their ranks.
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGUSR1};

void ask_to_stop(int signal) {
  signal_seen = signal;
  stop_asked = true;
  for (const int next : kStopSignals) std::signal(next, SIG_DFL);  // a second one ends at once
}

}  // namespace

int main(int count, char** arguments) {
  // Memory that is given back to the system costs more to get again than to keep.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not the end
  for (const int signal : kStopSignals) std::signal(signal, ask_to_stop);
  try {
    if (count > 1 && std::string(arguments[1]) == "tokenize")
      return engine::tokenize_command(std::vector<std::string>(arguments + 2, arguments + count),
                                      std::cout, std::cerr);
    if (count == 2 && std::string(arguments[1]) == "describe")
      return static_cast<int>(engine::describe_worker(std::cout));
    engine::WorkerOptions options = engine::parse_worker_arguments(count, arguments);
    options.stop = &stop_asked;
    const engine::ExitCode code = engine::run_worker(options, std::cerr);
    if (code == engine::ExitCode::terminated && signal_seen == SIGINT)
      return static_cast<int>(engine::ExitCode::interrupted);
    return static_cast<int>(code);
  } catch (const engine::Error& error) {
    std::cerr << engine::worker_name() << ": " << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
